"""A reserved device is held or used by others when its reservation begins."""

from collections.abc import Mapping

from andon.explain.conditions.condition import (
    HOUR_SECONDS,
    WARNING,
    Condition,
    Precondition,
    Rung,
)
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import ENDED, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import DeviceReservation, OnReserved
from andon.explain.conditions.promql import LEASES_ARE_NO_METRIC
from andon.explain.conditions.sharing.phrases import (
    Blockers,
    named,
    release_advice,
    reservation_evidence,
)
from andon.explain.evidence.blame import pid_with
from andon.explain.evidence.observation import HeldDevices
from andon.explain.evidence.phrasing import Clause
from andon.model.device import Process, ProcessKind, State
from andon.model.thresholds import Figure, Thresholds
from andon.units import and_more, human_seconds

SECONDS = Figure(
    "reservation_blocked_seconds",
    HOUR_SECONDS,
    "how long before its start a reservation is in the way of what still holds its devices",
    1,
    604_800,
    switch=True,
)


def judge(seen: DeviceReservation) -> Finding | None:
    """Judges whom its owner would find on the device: leases that do not end before the start, and
    processes without a lease."""
    one, at = seen.reserved, seen.at
    if one.begins - at > seen.figures.reservation_blocked_seconds:
        return ENDED
    holders = tuple(held for held in seen.shared.holders if _lasts_into(held, seen))
    strangers = _strangers(seen)
    if not (holders or strangers):
        return None if _knows_processes(seen) else UNKNOWN
    return Finding(ONE, one.begins - at, about=Blockers(one, holders, strangers, at))


def _lasts_into(held: HeldDevices, seen: DeviceReservation) -> bool:
    begins = seen.reserved.begins
    lasts = seen.at >= begins or held.orphaned or held.until is None or held.until > begins
    return lasts and held.user != seen.reserved.user


def _strangers(seen: DeviceReservation) -> tuple[Process, ...]:
    """Returns others' processes without a lease, if it is known whose they are."""
    status = seen.shared.status
    outside = seen.shared.sharing.strangers.get(status.device.uuid)
    found = (
        process
        for process in (status.processes if status.answered else ())
        if process.kind is ProcessKind.COMPUTE and process.user not in (None, seen.reserved.user)
    )
    if seen.shared.holders:
        return tuple(one for one in found if outside is not None and one.pid in outside)
    return tuple(one for one in found if one.lease is None)


def _knows_processes(seen: DeviceReservation) -> bool:
    status = seen.shared.status
    hidden = "processes" in status.missing or status.device.uuid in seen.shared.sharing.unsure
    return status.state is State.ASLEEP or (status.answered and not hidden)


def describe(facts: ConditionFacts) -> Description:
    """Who has reserved it, for when, and who is still there."""
    about: Blockers = facts.finding.about
    one, left = about.reserved, about.reserved.begins - about.at
    when = f"in {human_seconds(left)}"
    if left <= 0:
        when = f"for another {human_seconds(one.ends - about.at)}"
    text = f"{facts.it} is reserved by {one.user} {when}, and still {_by(about)}"
    return Description(Clause(text), reservation_evidence(about), advice=_advice(about))


def _by(about: Blockers) -> str:
    held, used = "", ""
    if about.holders:
        held = f"held by {named(about.holders)}"
        held += " without an end" if about.holders[0].until is None else ""
    if about.strangers:
        first = about.strangers[0]
        used = f"used by {pid_with(first, first.user)}{and_more(len(about.strangers) - 1)}"
    return " and ".join(filter(None, (held, used)))


def _advice(about: Blockers) -> str:
    if about.holders and (release := release_advice(about.holders[0])):
        return release
    first = about.strangers[0] if about.strangers else None
    whom = "its owner" if first is None or first.user is None else first.user
    return f"Ask {whom} to end it, or {about.reserved.user} to change the reservation"


def _numbers(figures: Thresholds) -> Mapping[str, float | str]:
    return {"ahead": human_seconds(figures.reservation_blocked_seconds)}


CONDITION = Condition(
    name="reservation_blocked",
    title="Reserved but held by others",
    why="Nothing is ended for a reservation: it begins when they release the device.",
    advice="Ask who holds it to release it: andon release ID",
    judged=OnReserved(judge),
    rungs=(
        Rung(
            WARNING,
            "from {ahead} before a reservation on, another user's lease that does not end before "
            "it, or another user's process without a lease",
            60, "neither for 60 s, or the reservation is over", 60,
        ),
    ),
    label="reserved, in use",
    headline="is reserved but held by others",
    describe=describe,
    figures=(SECONDS,),
    numbers=_numbers,
    unit="seconds",
    needs=Precondition.LEASES,
    weight=3,
    promql=LEASES_ARE_NO_METRIC,
)  # fmt: skip
