"""A process that belongs to no lease computes on a leased device."""

from andon.explain.conditions.condition import (
    WARNING,
    AlertFacts,
    Condition,
    Precondition,
    Rung,
)
from andon.explain.conditions.finding import ENDED, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnSharing, SharedDevice
from andon.explain.conditions.promql import LEASES_ARE_NO_METRIC
from andon.explain.conditions.sharing.phrases import (
    LEASE,
    Holders,
    holder_evidence,
    lasting,
    named,
)
from andon.explain.evidence.blame import pid_with
from andon.model.device import State
from andon.model.thresholds import Figure

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


def sentence(facts: AlertFacts) -> str:
    about = facts.finding.about
    if not isinstance(about, Holders):
        return lasting(f"{facts.it} is used outside its lease", facts)
    first, others = about.strangers[0], len(about.strangers) - 1
    more = f" and {others} more" if others else ""
    by = f"by {pid_with(first, first.user)}{more}"
    return lasting(f"{facts.it}: used outside {named(about.holders)} {by}", facts)


def advise(facts: AlertFacts) -> str | None:
    about = facts.finding.about
    if not isinstance(about, Holders) or not about.holders[0].id.startswith(LEASE):
        return None
    first = about.strangers[0]
    whom = first.user or f"the owner of pid {first.pid}"
    return f"Ask {whom} to lease a device: andon run -- COMMAND"


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
    sentence=sentence,
    advise=advise,
    evidence=holder_evidence,
    figures=(SECONDS,),
    unit="bytes",
    needs=Precondition.LEASES,
    weight=4,
    promql=LEASES_ARE_NO_METRIC,
)  # fmt: skip
