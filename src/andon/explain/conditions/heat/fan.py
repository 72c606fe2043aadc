"""The fan has stopped although the device is hot."""

from andon.explain.conditions.condition import (
    WARNING,
    Condition,
    Rung,
    clears_below,
)
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import NEITHER, ONE, UNKNOWN, Finding
from andon.explain.conditions.heat.limits import hot_from
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import PromTerms
from andon.explain.evidence.measures import temperature_celsius
from andon.explain.evidence.phrasing import CERTAIN, LIKELY, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.model.thresholds import Figure

CELSIUS = Figure(
    "fan_celsius", 70.0, "the temperature from which the fan must run", 0, 150, switch=True
)
CLEAR_CELSIUS = 10
FAN_FAILED = ReasonKind("fan_failed", "hot, and the fan has stopped", 95)
ADVICE = "Stop the work on it, then check the fan: its cable, a blocked blade, its bearing."


def judge(seen: View) -> Finding | None:
    """Judges a hot device whose fan has stopped."""
    speed, now = seen.sample.fan_percent, seen.sample.temperature_celsius
    if speed is None:
        return UNKNOWN
    if speed > 0:
        return None
    if now is None:
        return UNKNOWN
    least = seen.figures.fan_celsius
    if now <= least - CLEAR_CELSIUS:
        return None
    limit = seen.device.limits.slowdown_celsius
    return Finding(ONE, now, least, limit) if now >= least else NEITHER


def describe(facts: ConditionFacts) -> Description:
    """How hot it is without its fan."""
    text = phrase("The fan of {it} has stopped", facts.it)
    text += phrase(" at {now}", now=facts.value("temperature_celsius"))
    view = facts.device
    hot = view.at_least("temperature_celsius", hot_from(facts.finding.limit, view.figures))
    more = [view.read("fan_percent"), view.limit("slowdown_celsius"), view.read("throttle")]
    return Description(text, more, confidence=CERTAIN if hot else LIKELY)


def _stopped(t: PromTerms, fires: str) -> str:
    temp, least = t.m("gpu_temperature_celsius"), t.figures.fan_celsius
    warm = f"({temp} >= {least:g} or ({temp} > {least - CLEAR_CELSIUS:g} and {fires}))"
    return f"{warm} and {t.m('gpu_fan_ratio')} == 0"


CONDITION = Condition(
    name="fan",
    title="Fan stopped",
    why="It is hot and nothing cools it.",
    advice=ADVICE,
    judged=OnReading(judge),
    possible_if=("fan_percent <= 0", "temperature_celsius >= fan_celsius"),
    rungs=(
        Rung(
            WARNING,
            "its fan does not turn at {fan_celsius} °C or more",
            60, "it turns, or {clear} °C", 60,
        ),
    ),
    label="fan stopped",
    headline="has a stopped fan",
    describe=describe,
    measure=temperature_celsius,
    figures=(CELSIUS,),
    numbers=clears_below("fan_celsius", CLEAR_CELSIUS),
    unit="celsius",
    weight=12,
    kinds=(FAN_FAILED,),
    promql=(_stopped,),
)  # fmt: skip
