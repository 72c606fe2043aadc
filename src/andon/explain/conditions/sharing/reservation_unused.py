"""A reservation has begun and its owner has not used it."""

from andon.explain.conditions.condition import (
    WARNING,
    Condition,
    Precondition,
    Rung,
    Subject,
)
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
    "reservation_unused_seconds",
    300.0,
    "how long after its start a reservation may be unused",
    1,
    604_800,
    switch=True,
)


def judge(
    one: ReservedDevices, leases: tuple[HeldDevices, ...], at: float, _: Thresholds
) -> Finding | None:
    """Judges a reservation whose time has begun; the value is how long it is still in force. A
    lease of its owner from before the start is use, too."""
    if one.lapses is None or at < one.begins:
        return None
    devices = frozenset(one.devices)
    if any(held.user == one.user and not devices.isdisjoint(held.devices) for held in leases):
        return None
    return Finding(ONE, one.lapses - at, about=Blockers(one, (), (), at))


def describe(facts: ConditionFacts) -> Description:
    """Whose it is, and when others may have the devices."""
    about: Blockers = facts.finding.about
    one, left = about.reserved, human_seconds(facts.finding.value or 0.0)
    text = f"{reservation_name(one)} of {facts.gpus} is not used, given back in {left}"
    advice = f"{one.user} can use it, or give it back now: andon reserve cancel {one.name}"
    return Description(Clause(text), reservation_evidence(about), advice=advice)


CONDITION = Condition(
    name="reservation_unused",
    title="Unused reservation",
    subject_kind=Subject.RESERVATION,
    why="Its devices are withheld from others, and given back if its owner gets no lease on them.",
    advice="Use it, or give it back: andon reserve cancel ID",
    judged=OnReservation(judge),
    rungs=(
        Rung(
            WARNING,
            "its time has begun and its owner has no lease on any of its devices",
            300, "used, given back or cancelled", 0, for_figure=SECONDS.name,
        ),
    ),
    describe=describe,
    figures=(SECONDS,),
    unit="seconds",
    needs=Precondition.LEASES,
    weight=1,
    promql=LEASES_ARE_NO_METRIC,
)  # fmt: skip
