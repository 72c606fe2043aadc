"""A reservation begins soon: its owner is told."""

from andon.explain.conditions.condition import INFO, Condition, Precondition, Rung, Subject
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import ONE, Finding
from andon.explain.conditions.judging import OnReservation
from andon.explain.conditions.promql import LEASES_ARE_NO_METRIC
from andon.explain.conditions.sharing.phrases import (
    Blockers,
    reservation_evidence,
    reservation_name,
)
from andon.explain.evidence.observation import HeldDevices, ReservedDevices
from andon.explain.evidence.phrasing import Clause
from andon.model.thresholds import Figure, Thresholds
from andon.units import human_seconds

SECONDS = Figure(
    "reservation_ahead_seconds",
    900.0,
    "how long before its start the owner of a reservation is told of it",
    1,
    604_800,
    switch=True,
)


def judge(
    one: ReservedDevices, leases: tuple[HeldDevices, ...], at: float, figures: Thresholds
) -> Finding | None:
    """Judges a reservation that has not begun; the value is how long it takes until it does."""
    left = one.begins - at
    if not 0 < left <= figures.reservation_ahead_seconds:
        return None
    return Finding(ONE, left, about=Blockers(one, (), (), at))


def describe(facts: ConditionFacts) -> Description:
    """Whose it is, and when it begins."""
    about: Blockers = facts.finding.about
    left = human_seconds(facts.finding.value or 0.0)
    text = f"{reservation_name(about.reserved)} of {facts.gpus} begins in {left}"
    advice = (
        f"andon run takes its GPUs; to give it back: andon reserve cancel {about.reserved.name}"
    )
    return Description(Clause(text), reservation_evidence(about), advice=advice)


CONDITION = Condition(
    name="reservation_ahead",
    title="Reservation begins soon",
    subject_kind=Subject.RESERVATION,
    why="Its owner can use it from then on; what nobody uses is given back.",
    advice="Use it by andon run or andon lease, or give it back: andon reserve cancel ID",
    judged=OnReservation(judge),
    rungs=(Rung(INFO, "{reservation_ahead_seconds} s before its start", 0, "begun, cancelled", 0),),
    describe=describe,
    figures=(SECONDS,),
    unit="seconds",
    needs=Precondition.LEASES,
    promql=LEASES_ARE_NO_METRIC,
)  # fmt: skip
