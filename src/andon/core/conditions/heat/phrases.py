"""What the explanations of heat share."""

from andon.core.conditions.heat.limits import (
    HeatLimits,
    HeatThrottling,
    heat_limits,
    heat_throttling,
)
from andon.core.evidence.phrasing import Clause, say
from andon.core.evidence.reasons import Evidence
from andon.core.evidence.view import View

COOLING = (
    "Check the cooling: dust, blocked slots, cables in the airflow, a warm room or a neighbouring "
    "card. Until then, a lower power limit keeps it cooler."
)
COOLING_IN_ALERTS = (  # shorter: it is sent to people
    "Check the cooling: dust, blocked slots, a warm room, a neighbouring card. Until then, a lower "
    "power limit keeps it cooler."
)


def throttling(view: View) -> HeatThrottling:
    """Whether heat slows it down now."""
    sample, slowdown = view.sample, view.status.device.limits.slowdown_celsius
    celsius = sample.temperature_celsius
    return heat_throttling(sample.throttle or (), celsius, slowdown, view.figures)


def limits_of(view: View) -> HeatLimits:
    return heat_limits(view.status.device.limits.slowdown_celsius, view.figures)


def temperature(view: View) -> Clause:
    now, slowdown = view.read("temperature_celsius"), view.limit("slowdown_celsius")
    both = say("{t} (limit {s})", t=now, s=slowdown)
    return both or say("{t}", t=now)


def cooling(view: View) -> list[Evidence | None]:
    return [view.read("fan_percent"), view.read("memory_temperature_celsius")]
