"""All devices of a lease are idle."""

from andon.explain.conditions.condition import (
    WARNING,
    Condition,
    Precondition,
    Rung,
    Subject,
)
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import ENDED, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnLease, Statuses
from andon.explain.conditions.promql import LEASES_ARE_NO_METRIC
from andon.explain.conditions.sharing.phrases import (
    Holders,
    capital,
    lease_evidence,
    named,
    release_advice,
)
from andon.explain.evidence.observation import HeldDevices
from andon.explain.evidence.phrasing import Clause
from andon.model.device import DeviceStatus
from andon.model.thresholds import Figure, Thresholds
from andon.model.utilisation import ZERO_READING

SECONDS = Figure(
    "idle_lease_seconds",
    1800.0,
    "how long all devices of a lease may be idle",
    1,
    31_536_000,
    switch=True,
)


def judge(held: HeldDevices, statuses: Statuses, figures: Thresholds) -> Finding | None:
    """Judges a lease with only idle devices; one in use ends it, one without data is unknown."""
    if held.orphaned:
        return ENDED
    busy = [_busy(statuses.get(uuid)) for uuid in held.devices]
    if any(share is not None and share > ZERO_READING for share in busy):
        return None
    if None in busy or not busy:
        return UNKNOWN
    return Finding(ONE, 0.0, figures.idle_lease_seconds, None, Holders((held,)))


def _busy(status: DeviceStatus | None) -> int | None:
    if status is None or not status.answered or status.sample is None:
        return None
    return status.sample.utilization_percent


def describe(facts: ConditionFacts) -> Description:
    """Whose lease it is, and which devices it leaves idle."""
    about: Holders = facts.finding.about
    left = f"{capital(named(about.holders))} has left {facts.gpus or 'its devices'} idle"
    held = about.holders[0]
    return Description(
        facts.lasting(Clause(left)), lease_evidence(held), advice=release_advice(held)
    )


CONDITION = Condition(
    name="idle_lease",
    title="Idle lease",
    subject_kind=Subject.LEASE,
    why="Others wait for devices that are not in use.",
    advice="Release it: andon release ID",
    judged=OnLease(judge),
    rungs=(
        Rung(
            WARNING,
            "the utilisation of all its devices is 0",
            1800, "one in use for 60 s, or released", 60, for_figure=SECONDS.name,
        ),
    ),
    describe=describe,
    figures=(SECONDS,),
    unit="seconds",
    needs=Precondition.LEASES,
    weight=2,
    promql=LEASES_ARE_NO_METRIC,
)  # fmt: skip
