"""The driver reports an error of a device by its number."""

from typing import NamedTuple

from andon.events.rules.xids import explain_event
from andon.explain.conditions.condition import (
    CRITICAL,
    DAY_SECONDS,
    HOUR_SECONDS,
    INFO,
    WARNING,
    Condition,
    Rung,
)
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import CALM, EVENT, Finding, Rungs
from andon.explain.conditions.judging import OnEvents
from andon.explain.evidence.phrasing import Clause
from andon.model.alert import Level
from andon.model.event import Event, EventKind

DAY_CLEAR = "24 h without another, or 60 s after a reboot"
STEPS = (
    Rung(
        INFO,
        "an error caused by the application",
        0, "1 h without another, or 60 s after a reboot", HOUR_SECONDS, notify=False,
    ),
    Rung(WARNING, "any other error", 0, DAY_CLEAR, DAY_SECONDS),
    Rung(CRITICAL, "an error that means a broken or stuck device", 0, DAY_CLEAR, DAY_SECONDS),
)  # fmt: skip


class DriverError(NamedTuple):
    """What the driver reported."""

    event: Event


def judge(before: Finding | None, event: Event) -> Finding:
    """The finding with this event added; its text comes from the latest of the worst events."""
    rungs = _rungs(explain_event(event).level)
    new = Finding(rungs, event.code, about=DriverError(event))
    if before is None:
        return new
    pairs = zip(before.rungs, rungs, strict=True)
    both = tuple(EVENT if EVENT in pair else CALM for pair in pairs)
    text = new if _highest(rungs) >= _highest(before.rungs) else before
    return text._replace(rungs=both)


def _rungs(level: Level) -> Rungs:
    return tuple(EVENT if step.level is level else CALM for step in STEPS)


def _highest(rungs: Rungs) -> int:
    return max(place for place, state in enumerate(rungs) if state is EVENT)


def describe(facts: ConditionFacts) -> Description:
    """What the number means, and what to do about it."""
    about: DriverError = facts.finding.about
    event, known = about.event, explain_event(about.event)
    named = event.kind is EventKind.XID and event.code is not None
    number = f"Xid {event.code}" if named else "an error"
    text = Clause(f"{facts.it} reports {number}: {known.meaning}")
    return Description(text, advice=known.advice(facts.number) or "")


CONDITION = Condition(
    name="xid",
    title="The driver reports an error",
    why="The driver reports errors by number; some mean that the device has to be reset.",
    advice="The message says what this number means.",
    judged=OnEvents(frozenset(EventKind) - {EventKind.ECC}, judge, until_it_works=True),
    rungs=STEPS,
    label="error",
    headline="reports an error",
    describe=describe,
    unit="xid",
    weight=13,
    momentary=True,
    promql="an event is not a metric: andon reports it itself",
)
