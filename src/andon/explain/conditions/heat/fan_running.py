"""Why the fan runs: heat or load, or no visible cause; only `why` mentions it."""

from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.judging import OnRequest
from andon.explain.evidence.measures import (
    measured,
    slowdown_margin_celsius,
    temperature_fall_celsius,
    utilization_max_percent,
)
from andon.explain.evidence.phrasing import LIKELY, POSSIBLE, Clause, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.model.utilisation import BARELY_BUSY_PERCENT

COOL_CELSIUS = 50
FALL_CELSIUS = 3  # cooling down by this much explains the fan
HOT_MARGIN_CELSIUS = 5  # below its slowdown temperature: no fan speed is normal there
RUNS_PERCENT = 25
LOUD_PERCENT = 36  # some cards idle at a third
LOAD_PERCENT = 30
VERY_LOUD_PERCENT = 70  # loud enough that people ask
FAN = ReasonKind("fan", "heat or load explains the fan", 14, mild=6)
"""Milder: it is not loud."""
FAN_IDLE = ReasonKind("fan_idle", "the fan runs although the device is idle and cool", 24)
NORMAL = "Nothing to do: this is normal. Less load or a lower power limit makes it quieter."
TOO_HOT = "The fan is doing its job: fix the heat first, and it becomes quieter."
SET_BY_HAND = "Check for a fan speed set by hand in the driver settings or the firmware."


def explain(view: View) -> Description | None:
    """Explains why the fan runs: because of heat or load, or without a cause."""
    return _for_nothing(view) if _runs_for_nothing(view) else _running(view)


def _running(view: View) -> Description | None:
    """Explains a fan that runs because of heat or load, now or a moment ago."""
    if not view.at_least("fan_percent", RUNS_PERCENT):
        return None
    because = _cause(view)
    if not because:
        return None
    text = phrase("Fan at {f}:", f=view.read("fan_percent")) + Clause(" ") + because
    more = [view.read("utilization_percent"), view.read("power_watts")]
    mild = not view.at_least("fan_percent", VERY_LOUD_PERCENT)
    margin = slowdown_margin_celsius(view)
    hot = margin is not None and margin <= HOT_MARGIN_CELSIUS
    advice = TOO_HOT if hot else NORMAL
    return Description(text, more, view.worker, advice, LIKELY, kind=FAN, mild=mild)


def _for_nothing(view: View) -> Description:
    """Explains a fan that runs although the device has been idle and cool throughout."""
    text = phrase(
        "Fan at {f} although the GPU is idle ({u}) and cool ({t})",
        f=view.read("fan_percent"),
        u=view.read("utilization_percent"),
        t=view.read("temperature_celsius"),
    )
    confidence = LIKELY if len(view.past) > 1 else POSSIBLE
    return Description(
        text, [view.read("power_watts")], advice=SET_BY_HAND, confidence=confidence, kind=FAN_IDLE
    )


def _runs_for_nothing(view: View) -> bool:
    loud = view.at_least("fan_percent", LOUD_PERCENT)
    cool = view.at_most("temperature_celsius", COOL_CELSIUS - 1)
    return loud and view.idle and cool and not _cools_down(view)


def _cause(view: View) -> Clause:
    if view.at_least("temperature_celsius", COOL_CELSIUS):
        return phrase("the GPU is at {t}", t=view.read("temperature_celsius")) + phrase(
            " and {u} busy", u=view.read("utilization_percent") if view.works else None
        )
    if view.at_least("utilization_percent", LOAD_PERCENT):
        return phrase("the GPU is {u} busy", u=view.read("utilization_percent"))
    if view.works and not _has_cooled(view):
        return phrase("the GPU is lightly used ({u})", u=view.read("utilization_percent"))
    if _cools_down(view):
        most = measured(view, utilization_max_percent)
        return phrase("the GPU is cooling down after work ({u} in the last minute)", u=most)
    return Clause()


def _cools_down(view: View) -> bool:
    most = utilization_max_percent(view)
    return _has_cooled(view) or (most is not None and most > BARELY_BUSY_PERCENT)


def _has_cooled(view: View) -> bool:
    fell = temperature_fall_celsius(view)
    return fell is not None and fell >= FALL_CELSIUS


CONDITION = Condition(
    name="fan_running",
    title="Fan running",
    why="A fan runs because of heat or load, now or a moment ago. If the device is idle and cool, "
    "its speed may have been set by hand.",
    advice=SET_BY_HAND,
    judged=OnRequest(explain),
    kinds=(FAN, FAN_IDLE),
)
