"""The memory is hot, while the chip may be cool; only `why` mentions it."""

from andon.explain.conditions.clocks.phrases import clocks
from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.heat.phrases import throttling
from andon.explain.conditions.judging import OnRequest
from andon.explain.evidence.measures import clock_loss_percent, measured, slowdown_margin_celsius
from andon.explain.evidence.phrasing import LIKELY, POSSIBLE, Clause, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View

HOT_CELSIUS = 95  # the limit of stacked memory; graphics memory tolerates more
VERY_HOT_CELSIUS = 105
COOL_MARGIN_CELSIUS = 15  # a chip further below its own limit is not the cause
MEMORY_HEAT = ReasonKind("memory_heat", "the memory is hot", 84, mild=60)
"""Milder: not throttled yet."""
ADVICE = "Check the cooling of the memory: pads, back plate, airflow over the back of the card."


def explain(view: View) -> Description | None:
    """Explains memory that is hotter than the chip; vendors do not publish its limit."""
    costs = bool(throttling(view))
    if not _is_hot(view) or (costs and memory_is_the_cause(view)):
        return None  # the condition about the throttling names it as the cause
    very_hot = view.at_least("memory_temperature_celsius", VERY_HOT_CELSIUS)
    confidence = LIKELY if costs or very_hot else POSSIBLE
    names = ("memory_utilization_percent", "throttle")
    cost = [measured(view, clock_loss_percent), *clocks(view)] if costs else []
    more = [*(view.read(name) for name in names), *cost]
    return Description(_text(view), more, view.worker, confidence=confidence, mild=not costs)


def memory_is_the_cause(view: View) -> bool:
    """Whether the memory is hot while the chip is far from its own limit."""
    margin = slowdown_margin_celsius(view)
    return margin is not None and margin > COOL_MARGIN_CELSIUS and _is_hot(view)


def _is_hot(view: View) -> bool:
    return view.at_least("memory_temperature_celsius", HOT_CELSIUS)


def _text(view: View) -> Clause:
    text = phrase("Hot memory: {m}", m=view.read("memory_temperature_celsius"))
    return text + phrase(", while the chip is at {t}", t=view.read("temperature_celsius"))


CONDITION = Condition(
    name="memory_heat",
    title="Hot memory",
    why="The memory can be hotter than the chip, and throttle a device whose chip is cool.",
    advice=ADVICE,
    explains=("throttle_thermal",),
    judged=OnRequest(explain),
    kinds=(MEMORY_HEAT,),
)
