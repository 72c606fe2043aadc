"""Memory stays in use after the lease that held the device ended."""

from andon.explain.conditions.condition import WARNING, Condition, Precondition, Rung
from andon.explain.conditions.description import ConditionFacts, Description, evidence_of
from andon.explain.conditions.finding import ENDED, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnSharing, SharedDevice
from andon.explain.conditions.open_files import FIND_WHO, find_who
from andon.explain.conditions.sharing.phrases import lease_name
from andon.explain.evidence.blame import (
    least_unattributed_bytes,
    owns_memory,
    unattributed_bytes,
)
from andon.explain.evidence.observation import PreviousLease
from andon.explain.evidence.phrasing import Clause, phrase
from andon.model.device import State
from andon.model.thresholds import Figure

SECONDS = Figure(
    "leftover_memory_seconds",
    60.0,
    "how long memory may stay in use after its lease ended",
    1,
    31_536_000,
    switch=True,
)


def judge(shared: SharedDevice) -> Finding | None:
    """Judges memory left behind by the previous lease; a new holder ends the alert."""
    status, device = shared.status, shared.status.device
    if shared.holders:
        return ENDED
    if not owns_memory(device, shared.divided) or status.state is State.ASLEEP:
        return None
    spare = unattributed_bytes(status, shared.divided)
    if spare is None:
        return UNKNOWN
    if not spare:
        return None
    least = least_unattributed_bytes(device.memory_total_bytes, len(status.processes))
    return Finding(ONE, spare, least, device.memory_total_bytes, shared.former)


def describe(facts: ConditionFacts) -> Description:
    """How much memory is left, and whose lease left it."""
    former: PreviousLease | None = facts.finding.about
    known, whose = {}, "a lease"
    if former is not None:
        known = {"lease": former.id.rpartition(":")[2], "user": former.user or ""}
        whose = lease_name(former.id, former.user) if former.id else whose
    text = phrase("{it}: {size} still in use", facts.it, size=facts.value("left_bytes"))
    more = evidence_of({name: text for name, text in known.items() if text})
    return Description(text + Clause(f" after {whose} ended"), more, advice=find_who(facts.device))


CONDITION = Condition(
    name="leftover_memory",
    title="Memory left by a lease",
    why="The device is withheld: the next holder would get less memory than it should.",
    advice=FIND_WHO,
    judged=OnSharing(judge, after_lease=True),
    rungs=(
        Rung(
            WARNING,
            "memory stays in use after the lease that held it ended",
            60, "none for 60 s, or leased again", 60, for_figure=SECONDS.name,
        ),
    ),
    label="memory held",
    headline="has memory left by an ended lease",
    describe=describe,
    figures=(SECONDS,),
    unit="bytes",
    needs=Precondition.LEASES,
    weight=5,
    promql="which leases ended is not a metric",
)  # fmt: skip
