"""Heat limits the clocks of the device."""

from typing import Final

from andon.explain.conditions.clocks.phrases import clocks, slower
from andon.explain.conditions.condition import (
    CRITICAL,
    WARNING,
    Condition,
    Rung,
)
from andon.explain.conditions.description import ConditionFacts, Description, lately
from andon.explain.conditions.finding import CALM, HOLDS, UNKNOWN, Finding, Rungs
from andon.explain.conditions.heat.limits import (
    BY_HARDWARE,
    HEAT_REASONS,
    NOT_THROTTLED,
    PERHAPS_HEAT,
    heat_throttling,
)
from andon.explain.conditions.heat.memory_heat import ADVICE as MEMORY_ADVICE
from andon.explain.conditions.heat.memory_heat import MEMORY_HEAT, memory_is_the_cause
from andon.explain.conditions.heat.phrases import (
    COOLING_ADVICE,
    HEAT,
    cooling,
    cooling_advice,
    slowed_by_hardware_query,
    slowed_query,
    temperature,
)
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import PromTerms
from andon.explain.evidence.phrasing import CERTAIN, LIKELY, Clause, phrase
from andon.explain.evidence.view import View, after_colon

_DRIVER_ONLY: Final[Rungs] = (HOLDS, CALM)
_BOTH: Final[Rungs] = (HOLDS, HOLDS)


def judge(seen: View) -> Finding | None:
    """Judges whether heat limits its clocks."""
    reasons = seen.reasons
    if not reasons:
        return None if reasons is not None else UNKNOWN
    now, limit = seen.sample.temperature_celsius, seen.device.limits.slowdown_celsius
    slowed = heat_throttling(reasons, now, limit, seen.figures)
    if slowed is NOT_THROTTLED:
        return None
    return Finding(_BOTH if slowed is BY_HARDWARE else _DRIVER_ONLY, now, None, limit)


def describe(facts: ConditionFacts) -> Description:
    """What is hot, what it costs, and for how long: the chip, or its memory."""
    view = facts.device
    text = phrase("{it} is thermally throttled", facts.it)
    by_memory = memory_is_the_cause(view)
    if by_memory:
        memory = view.read("memory_temperature_celsius")
        text += phrase(" by its memory: {m}", m=memory)
        text += phrase(", while the chip is at {t}", t=view.read("temperature_celsius"))
    else:
        text += after_colon(temperature(view))
    # The last hour counts only the reasons that mean heat whatever the temperature was then.
    certain = not HEAT_REASONS.isdisjoint(view.reasons or ())
    text += slower(view) + (lately(view, HEAT_REASONS) if certain else Clause())
    more = [view.read("throttle"), *clocks(view), *cooling(view)]
    return Description(
        text, more, view.worker, MEMORY_ADVICE if by_memory else cooling_advice(view),
        CERTAIN if certain and not by_memory else LIKELY,
        kind=MEMORY_HEAT if by_memory else HEAT,
        mild=not by_memory and facts.finding.rungs == _DRIVER_ONLY,
    )  # fmt: skip


def _warned(t: PromTerms, fires: str) -> str:
    return slowed_query(t)


def _critical(t: PromTerms, fires: str) -> str:
    return slowed_by_hardware_query(t)


CONDITION = Condition(
    name="throttle_thermal",
    title="Thermally throttled",
    why="Heat costs speed now, whatever the chip's temperature: its memory may be the cause.",
    advice=COOLING_ADVICE,
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
    describe=describe,
    weight=16,
    behind=("thermal",),
    explains=("thermal",),
    kinds=(HEAT, MEMORY_HEAT),
    promql=(_warned, _critical),
)  # fmt: skip
