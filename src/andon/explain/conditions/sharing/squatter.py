"""A process that belongs to no lease computes on a leased device."""

from andon.explain.conditions.condition import (
    WARNING,
    Condition,
    Precondition,
    Rung,
)
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import ENDED, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnSharing, SharedDevice
from andon.explain.conditions.promql import LEASES_ARE_NO_METRIC
from andon.explain.conditions.sharing.phrases import (
    LEASE,
    Holders,
    lease_evidence,
    named,
)
from andon.explain.evidence.blame import pid_with
from andon.explain.evidence.phrasing import Clause
from andon.model.device import State
from andon.model.thresholds import Figure
from andon.units import and_more

SECONDS = Figure(
    "squatter_seconds",
    60.0,
    "how long a process may compute on a device that another user has leased",
    1,
    31_536_000,
    switch=True,
)


def judge(shared: SharedDevice) -> Finding | None:
    """Judges processes on the device outside its leases; the value is the memory they use."""
    status, uuid = shared.status, shared.status.device.uuid
    if not shared.holders:
        return ENDED
    if not status.answered:
        return None if status.state is State.ASLEEP else UNKNOWN
    pids = shared.sharing.strangers.get(uuid, frozenset())
    found = tuple(process for process in status.processes if process.pid in pids)
    if not found:
        return UNKNOWN if uuid in shared.sharing.unsure else None
    sizes = [process.memory_bytes for process in found]
    used = None if None in sizes else sum(size for size in sizes if size is not None)
    about = Holders(shared.holders, found)
    return Finding(ONE, used, None, status.device.memory_total_bytes, about)


def describe(facts: ConditionFacts) -> Description:
    """Who computes there outside whose lease."""
    about: Holders = facts.finding.about
    first, others, held = about.strangers[0], len(about.strangers) - 1, about.holders[0]
    by = f"by {pid_with(first, first.user)}{and_more(others)}"
    text = Clause(f"{facts.it}: used outside {named(about.holders)} {by}")
    whom = first.user or f"the owner of pid {first.pid}"
    ask = f"Ask {whom} to lease a device: andon run -- COMMAND"
    more = lease_evidence(held, (process.pid for process in about.strangers))
    return Description(facts.lasting(text), more, advice=ask if held.id.startswith(LEASE) else "")


CONDITION = Condition(
    name="squatter",
    title="Used outside its lease",
    why="The holder of the lease shares the device without knowing it.",
    advice="Ask its owner to lease a device: andon run -- COMMAND",
    judged=OnSharing(judge),
    rungs=(
        Rung(
            WARNING,
            "leased, and used by a process that belongs to no lease on it",
            60, "none for 60 s, or no longer held", 60, for_figure=SECONDS.name,
        ),
    ),
    label="unleased use",
    headline="is used outside its lease",
    describe=describe,
    figures=(SECONDS,),
    unit="bytes",
    needs=Precondition.LEASES,
    weight=4,
    promql=LEASES_ARE_NO_METRIC,
)  # fmt: skip
