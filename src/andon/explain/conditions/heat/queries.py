"""The PromQL parts that the heat conditions share: the same meaning as `limits`."""

from andon.explain.conditions.heat.limits import HEAT_REASONS
from andon.explain.conditions.promql import DEVICE, PromTerms
from andon.model.throttling import HW_SLOWDOWN, HW_THERMAL, POWER_BRAKE, TEMPERATURE_LIMIT


def hot_query(t: PromTerms) -> tuple[str, str, str]:
    """The temperature, and the limits of each device: shown and critical."""
    slowdown, temp = t.m("gpu_slowdown_temperature_celsius"), t.m("gpu_temperature_celsius")
    first = (
        f"(clamp_max({slowdown} - {t.figures.thermal_margin_celsius:g}, "
        f"{t.figures.thermal_celsius:g}) or {temp} * 0 + {t.figures.thermal_celsius:g})"
    )
    critical = f"({slowdown} or {temp} * 0 + {t.figures.thermal_critical_celsius:g})"
    return temp, first, critical


def slowed_by_hardware_query(t: PromTerms) -> str:
    """Returns the query for `heat_throttling`: also where old drivers give no reason, at the
    slowdown temperature."""
    temp = t.m("gpu_temperature_celsius")
    hot = f"{temp} >= {t.m('gpu_slowdown_temperature_celsius')}"
    unexplained = f"{t.reason(HW_SLOWDOWN.name)} unless {t.reason(POWER_BRAKE.name)}"
    return f"{t.reason(HW_THERMAL.name)} or (({unexplained}) and on ({DEVICE}) {hot})"


def slowed_query(t: PromTerms) -> str:
    """Returns the query for `heat_throttling`: AMD's temperature limit counts where the device
    is hot."""
    temp, first, _ = hot_query(t)
    limited = f"{t.reason(TEMPERATURE_LIMIT.name)} and on ({DEVICE}) {temp} >= {first}"
    return f"{t.reason(*HEAT_REASONS)} or {slowed_by_hardware_query(t)} or ({limited})"
