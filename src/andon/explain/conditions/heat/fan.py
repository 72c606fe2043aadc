"""The fan has stopped although the device is hot."""

from andon.explain.conditions import triggers
from andon.explain.conditions.condition import (
    WARNING,
    AlertFacts,
    Condition,
    Rung,
)
from andon.explain.conditions.device_view import DeviceView
from andon.explain.conditions.heat.phrases import limits_of
from andon.explain.conditions.judgement import NEITHER, ONE, UNKNOWN, Judgement
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import PromTerms
from andon.explain.conditions.wording import clears_below, reading, was
from andon.explain.evidence.phrasing import CERTAIN, LIKELY, conclude, say
from andon.explain.evidence.reasons import Reason, ReasonKind
from andon.explain.evidence.view import Explanation, View
from andon.model.thresholds import Figure

CELSIUS = Figure(
    "fan_celsius", 70.0, "the temperature from which the fan must run", 0, 150, switch=True
)
CLEAR_CELSIUS = 10
FAN_FAILED = ReasonKind("fan_failed", "hot, and the fan has stopped", 95)
ADVICE = "Stop the work on it, then check the fan: its cable, a blocked blade, its bearing."


def judge(seen: DeviceView) -> Judgement | None:
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
    return Judgement(ONE, now, least, limit) if now >= least else NEITHER


def sentence(facts: AlertFacts) -> str:
    return f"The fan of {facts.it} has stopped at {facts.finding.value or 0:.0f} °C"


def explain(view: View) -> Reason | None:
    """Explains a hot device whose fan has stopped."""
    hot_enough = view.at_least("temperature_celsius", view.figures.fan_celsius)
    if not (hot_enough and view.at_most("fan_percent", 0)):
        return None
    text = say(
        "Fan stopped ({f}) although the GPU is at {t}",
        f=view.read("fan_percent"),
        t=view.read("temperature_celsius"),
    )
    hot = view.at_least("temperature_celsius", limits_of(view).shown)
    more = [view.limit("slowdown_celsius"), view.read("throttle")]
    return conclude(FAN_FAILED, CERTAIN if hot else LIKELY, text, more, advice=ADVICE)


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
    lit_if=triggers.fan_stopped,
    rungs=(
        Rung(
            WARNING,
            "its fan does not turn at {fan_celsius} °C or more",
            60, "it turns, or {clear} °C", 60,
        ),
    ),
    label="fan stopped",
    headline="has a stopped fan",
    sentence=sentence,
    recovered=was("hot with a stopped fan", "°C"),
    measure=reading("temperature_celsius"),
    figures=(CELSIUS,),
    numbers=clears_below("fan_celsius", CLEAR_CELSIUS),
    unit="celsius",
    weight=12,
    reasons=(Explanation(explain, (FAN_FAILED,)),),
    promql=(_stopped,),
)  # fmt: skip
