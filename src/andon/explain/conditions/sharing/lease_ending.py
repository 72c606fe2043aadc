"""A lease ends soon, and cannot be extended: others have reserved its devices."""

from typing import NamedTuple

from andon.explain.conditions.condition import (
    HOUR_SECONDS,
    WARNING,
    Condition,
    Precondition,
    Rung,
    Subject,
)
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import CALM, HOLDS, Finding
from andon.explain.conditions.judging import OnLeaseEnd
from andon.explain.conditions.promql import LEASES_ARE_NO_METRIC
from andon.explain.conditions.sharing.phrases import capital, lease_evidence, named
from andon.explain.evidence.observation import HeldDevices, ReservedDevices
from andon.explain.evidence.phrasing import Clause
from andon.model.device import Process
from andon.model.thresholds import Figure, Thresholds
from andon.units import human_seconds

SECONDS = Figure(
    "lease_ending_seconds",
    HOUR_SECONDS,
    "how long before its end the user of a lease that must end for a reservation is first notified",
    1,
    604_800,
    switch=True,
)
LATER_SECONDS = 900.0, 300.0


class EndingLease(NamedTuple):
    """A lease, and the reservation before which it must end."""

    holders: tuple[HeldDevices, ...]
    reserved: ReservedDevices
    at: float
    strangers: tuple[Process, ...] = ()


def judge(
    held: HeldDevices, ahead: ReservedDevices, at: float, figures: Thresholds
) -> Finding | None:
    """Judges a lease with an end; of the times before it only those inside its length count."""
    if held.until is None or held.orphaned:
        return None
    left, length = held.until - at, held.until - held.since
    marks = (figures.lease_ending_seconds, *LATER_SECONDS)
    rungs = tuple(HOLDS if 0 < left <= mark < length else CALM for mark in marks)
    return Finding(rungs, left, about=EndingLease((held,), ahead, at)) if HOLDS in rungs else None


def describe(facts: ConditionFacts) -> Description:
    """When it ends, and who has reserved its devices from when."""
    about: EndingLease = facts.finding.about
    held, ahead = about.holders[0], about.reserved
    left = facts.finding.value or 0.0
    gap = ahead.begins - about.at - left
    then = "then" if gap < 60 else f"{human_seconds(gap)} later"
    text = f"{capital(named(about.holders))} on {facts.gpus} ends in {human_seconds(left)}"
    text = f"{text}; a reservation of {ahead.user} begins {then}"
    return Description(Clause(text), lease_evidence(held))


CONDITION = Condition(
    name="lease_ending",
    title="Lease must end for a reservation",
    subject_kind=Subject.LEASE,
    why="Others have reserved its devices: it ends at its end, and cannot be extended beyond their "
    "start.",
    advice="Save what is needed, or ask who has reserved: andon reservations",
    judged=OnLeaseEnd(judge),
    rungs=tuple(
        Rung(
            WARNING,
            f"{when} before the end of a lease that could not be extended by an hour because of "
            "another user's reservation",
            0, "the lease or the reservation has ended", 0,
        )
        for when in ("{lease_ending_seconds} s", "15 min", "5 min")
    ),
    each_rung=True,
    describe=describe,
    figures=(SECONDS,),
    unit="seconds",
    needs=Precondition.LEASES,
    weight=1,
    promql=LEASES_ARE_NO_METRIC,
)  # fmt: skip
