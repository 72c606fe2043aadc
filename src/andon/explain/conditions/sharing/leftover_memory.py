"""Memory stays in use after the lease that held the device ended."""

from collections.abc import Mapping
from typing import NamedTuple

from andon.explain.conditions.condition import (
    NOTHING,
    WARNING,
    AlertFacts,
    Condition,
    Precondition,
    Recovery,
    Rung,
)
from andon.explain.conditions.finding import ENDED, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnSharing, SharedDevice
from andon.explain.evidence.observation import PreviousLease
from andon.explain.conditions.open_files import FIND_WHO, advise_who
from andon.explain.conditions.sharing.phrases import lease_name
from andon.explain.conditions.wording import clears
from andon.explain.evidence.blame import (
    least_unattributed_bytes,
    owns_memory,
    unattributed_bytes,
)
from andon.model.device import State
from andon.model.thresholds import Figure
from andon.units import human_bytes

SECONDS = Figure(
    "leftover_memory_seconds",
    60.0,
    "how long memory may stay in use after its lease ended",
    1,
    31_536_000,
    switch=True,
)


class FormerLease(NamedTuple):
    """The lease that left the memory in use; its id is empty, or it is None, if unknown."""

    former: PreviousLease | None


def judge(shared: SharedDevice) -> Finding | None:
    """Memory left behind by the previous lease; a new holder ends the alert."""
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
    return Finding(ONE, spare, least, device.memory_total_bytes, FormerLease(shared.former))


def sentence(facts: AlertFacts) -> str:
    former, size = _former(facts.finding), human_bytes(facts.finding.value or 0)
    whose = "a lease" if former is None else lease_name(former.id, former.user)
    return f"{facts.it}: {size} still in use after {whose} ended"


def recovered(recovery: Recovery) -> str:
    size = "memory" if recovery.worst is None else human_bytes(recovery.worst)
    return f"{recovery.it} had {size} in use after a lease ended; {clears(recovery)}"


def evidence(found: Finding) -> Mapping[str, float | str]:
    about = found.about
    if not isinstance(about, FormerLease) or about.former is None:
        return NOTHING
    known = {"lease": about.former.id.rpartition(":")[2], "user": about.former.user}
    return {name: text for name, text in known.items() if text}


def _former(found: Finding) -> PreviousLease | None:
    """The lease, if its name is known."""
    former = found.about.former if isinstance(found.about, FormerLease) else None
    return former if former is not None and former.id else None


CONDITION = Condition(
    name="leftover_memory",
    title="Memory left by a lease",
    why="The device is withheld: the next holder would get less memory than reserved.",
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
    sentence=sentence,
    recovered=recovered,
    advise=advise_who,
    evidence=evidence,
    figures=(SECONDS,),
    unit="bytes",
    needs=Precondition.LEASES,
    weight=5,
    promql="which leases ended is not a metric",
)  # fmt: skip
