"""The driver reports an error of a device by its number."""

from typing import NamedTuple

from andon.events.rules.xids import explain_event
from andon.explain.conditions.condition import (
    CRITICAL,
    DAY_SECONDS,
    HOUR_SECONDS,
    INFO,
    WARNING,
    AlertFacts,
    Condition,
    Rung,
)
from andon.explain.conditions.finding import CALM, EVENT, Finding, Rungs
from andon.explain.conditions.judging import OnEvents
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


def judge_event(event: Event) -> Finding:
    """The finding of a single event."""
    return Finding(_rungs(explain_event(event).level), event.code, about=DriverError(event))


def with_event(found: Finding | None, event: Event) -> Finding:
    """The finding with this event added; its text comes from the latest of the worst events."""
    new = judge_event(event)
    if found is None:
        return new
    pairs = zip(found.rungs, new.rungs, strict=True)
    rungs = tuple(EVENT if EVENT in pair else CALM for pair in pairs)
    text = new if _highest(new.rungs) >= _highest(found.rungs) else found
    return text._replace(rungs=rungs)


def _rungs(level: Level) -> Rungs:
    return tuple(EVENT if step.level is level else CALM for step in STEPS)


def _highest(rungs: Rungs) -> int:
    return max(place for place, state in enumerate(rungs) if state is EVENT)


def sentence(facts: AlertFacts) -> str:
    about = facts.finding.about
    if not isinstance(about, DriverError):
        return f"{facts.it} reports an error"
    event = about.event
    named = event.kind is EventKind.XID and event.code is not None
    number = f"Xid {event.code}" if named else "an error"
    return f"{facts.it} reports {number}: {explain_event(event).meaning}"


def advise(facts: AlertFacts) -> str | None:
    about = facts.finding.about
    if not isinstance(about, DriverError):
        return None
    return explain_event(about.event).advice(facts.number)


CONDITION = Condition(
    name="xid",
    title="The driver reports an error",
    why="The driver reports errors by number; some mean that the device has to be reset.",
    advice="The message says what this number means.",
    judged=OnEvents(),
    rungs=STEPS,
    label="error",
    headline="reports an error",
    sentence=sentence,
    advise=advise,
    unit="xid",
    weight=13,
    momentary=True,
    promql="an event is not a metric: andon reports it itself",
)
