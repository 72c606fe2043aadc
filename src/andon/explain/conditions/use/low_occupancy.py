"""Always busy, but little of the chip is active; only `why` mentions it."""

from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.judging import OnRequest
from andon.explain.evidence.measures import measured, power_percent, utilization_min_percent
from andon.explain.evidence.phrasing import CERTAIN, POSSIBLE, Clause, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.model.throttling import IDLE

ALWAYS_PERCENT = 95.0
LOW_SM_PERCENT = 40.0
LOW_POWER_PERCENT = 40.0
MEMORY_BOUND_PERCENT = 60
LOW_OCCUPANCY = ReasonKind("low_occupancy", "always busy, but little of the chip is active", 30)
ADVICE = "Larger batches, fused kernels or several processes at once would use more of it."


def explain(view: View) -> Description | None:
    """Explains a device that is always busy although little of the chip is active."""
    least = utilization_min_percent(view)
    if least is None or least < ALWAYS_PERCENT:
        return None
    shown = _inactive(view)
    if not shown:
        return None
    text = phrase("Always busy ({u}), but ", u=view.read("utilization_percent")) + shown
    names = ("power_watts", "tensor_active_percent", "memory_utilization_percent")
    more = [view.read(name) for name in names]
    confidence = CERTAIN if view.sample.sm_active_percent is not None else POSSIBLE
    return Description(text, more, view.worker, ADVICE, confidence)


def _inactive(view: View) -> Clause:
    """Returns the share of the chip that is active, or its power if that is unknown."""
    active, power = view.sample.sm_active_percent, power_percent(view)
    if active is not None:
        low = active < LOW_SM_PERCENT
        share = view.read("sm_active_percent") if low else None
        return phrase("only {a} of the chip is active", a=share)
    low = power is not None and power < LOW_POWER_PERCENT and not _slow_for_a_reason(view)
    drawn = measured(view, power_percent) if low else None
    return phrase("draws only {p} of its power limit", p=drawn)


def _slow_for_a_reason(view: View) -> bool:
    """Whether low power is due to limited clocks or to waiting for memory."""
    reasons = [name for name in view.sample.throttle or () if name != IDLE.name]
    return bool(reasons) or view.at_least("memory_utilization_percent", MEMORY_BOUND_PERCENT)


CONDITION = Condition(
    name="low_occupancy",
    title="Little of the chip is active",
    why="It is always busy, but little of the chip is active.",
    advice=ADVICE,
    judged=OnRequest(explain),
    kinds=(LOW_OCCUPANCY,),
)
