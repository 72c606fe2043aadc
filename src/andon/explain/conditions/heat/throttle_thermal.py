"""Heat limits the clocks of the device."""

from collections.abc import Mapping
from typing import Final

from andon.explain.conditions.clocks.phrases import clocks
from andon.explain.conditions.condition import (
    CRITICAL,
    WARNING,
    AlertFacts,
    Condition,
    Rung,
)
from andon.explain.conditions.device_view import DeviceView
from andon.explain.conditions.heat.limits import (
    BY_HARDWARE,
    HEAT_REASONS,
    NOT_THROTTLED,
    PERHAPS_HEAT,
    heat_throttling,
)
from andon.explain.conditions.heat.memory_heat import memory_is_the_cause
from andon.explain.conditions.heat.phrases import (
    COOLING_IN_ALERTS,
    advise_cooling,
    cooling,
    cooling_advice,
    slowed_by_hardware_query,
    slowed_query,
    temperature,
    throttling,
)
from andon.explain.conditions.judgement import CALM, HOLDS, UNKNOWN, Judgement, Rungs
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import PromTerms
from andon.explain.conditions.wording import last_hour, lately
from andon.explain.evidence.measures import clock_loss_percent, measured
from andon.explain.evidence.phrasing import CERTAIN, LIKELY, Clause, conclude, say
from andon.explain.evidence.reasons import Reason, ReasonKind
from andon.explain.evidence.view import Explanation, View, after_colon

LEAST_LOSS_PERCENT = 1  # a smaller loss of the clock is not worth mentioning
HEAT = ReasonKind("heat", "thermally throttled now", 92, mild=86)
"""Milder: throttled by the driver, not by the hardware."""

_DRIVER_ONLY: Final[Rungs] = (HOLDS, CALM)
_BOTH: Final[Rungs] = (HOLDS, HOLDS)


def judge(seen: DeviceView) -> Judgement | None:
    """Heat limits its clocks."""
    reasons = seen.reasons
    if not reasons:
        return None if reasons is not None else UNKNOWN
    now, limit = seen.sample.temperature_celsius, seen.device.limits.slowdown_celsius
    slowed = heat_throttling(reasons, now, limit, seen.figures)
    if slowed is NOT_THROTTLED:
        return None
    rungs = _BOTH if slowed is BY_HARDWARE else _DRIVER_ONLY
    # The last hour counts only the reasons that mean heat whatever the temperature was then.
    certain = not HEAT_REASONS.isdisjoint(reasons)
    about = seen.track if certain else None
    return Judgement(rungs, now, None, limit, about)


def sentence(facts: AlertFacts) -> str:
    return f"{facts.it} is thermally throttled{lately(facts.finding.about, HEAT_REASONS)}"


def evidence(found: Judgement) -> Mapping[str, float | str]:
    return last_hour(found.about, HEAT_REASONS)


def explain(view: View) -> Reason | None:
    """Explains a device that is thermally throttled now, according to the driver."""
    slowed = throttling(view)
    if not slowed or memory_is_the_cause(view):
        return None
    text = say("Thermal throttling") + after_colon(temperature(view), _slower(view))
    confidence = CERTAIN if view.held_back_by(*HEAT_REASONS) else LIKELY
    worker = view.worker()
    more = [view.read("throttle"), *clocks(view), *cooling(view), *view.who(worker)]
    mild = slowed is not BY_HARDWARE
    return conclude(HEAT, confidence, text, more, worker, cooling_advice(view), mild=mild)


def _slower(view: View) -> Clause:
    notable = (clock_loss_percent(view) or 0) >= LEAST_LOSS_PERCENT
    loss = measured(view, clock_loss_percent) if notable else None
    return say("clock {loss} below maximum", loss=loss)


def _warned(t: PromTerms, fires: str) -> str:
    return slowed_query(t)


def _critical(t: PromTerms, fires: str) -> str:
    return slowed_by_hardware_query(t)


CONDITION = Condition(
    name="throttle_thermal",
    title="Thermally throttled",
    why="Heat costs speed now, whatever the chip's temperature: its memory may be the cause.",
    advice=COOLING_IN_ALERTS,
    advise=advise_cooling,
    judged=OnReading(judge, reasons=PERHAPS_HEAT),
    rungs=(
        Rung(
            WARNING,
            "the driver reports a thermal throttle reason; AMD's temperature limit counts while "
            "the device is hot",
            60, "it does not", 120,
        ),
        Rung(
            CRITICAL,
            "the hardware throttles it because of heat, or at its slowdown temperature without "
            "giving a reason",
            60, "it does not", 120,
        ),
    ),
    label="too hot",
    headline="is thermally throttled",
    sentence=sentence,
    evidence=evidence,
    weight=16,
    behind=("thermal",),
    explains=("thermal",),
    reasons=(Explanation(explain, (HEAT,)),),
    promql=(_warned, _critical),
)  # fmt: skip
