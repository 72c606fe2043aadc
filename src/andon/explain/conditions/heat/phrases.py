"""What the explanations of heat share."""

from andon.explain.conditions.heat.limits import HEAT_REASONS, HeatThrottling, heat_throttling
from andon.explain.conditions.promql import DEVICE, PromTerms
from andon.explain.evidence.phrasing import Clause, phrase
from andon.explain.evidence.reasons import Evidence, ReasonKind
from andon.explain.evidence.view import View
from andon.model.device import Device, Sample
from andon.model.throttling import HW_SLOWDOWN, HW_THERMAL, POWER_BRAKE, TEMPERATURE_LIMIT
from andon.model.vendors import NVIDIA

COOLING = (
    "Check the cooling: dust, blocked slots, a warm room, a neighbouring card. Until then, {limit}."
)
HEAT = ReasonKind("heat", "thermally throttled now", 92, mild=86)
"""Milder: throttled by the driver, not by the hardware."""
LOWER_LIMIT = "lower its power limit"
COOLING_ADVICE = COOLING.format(limit=LOWER_LIMIT)
LOWER_SHARE = 0.8  # of the limit in force: most cards lose a tenth of their speed at most
LEAST_WATTS = 150  # a card of less may not accept such a share
COARSE_WATTS = 400


def lower_limit(device: Device, sample: Sample | None) -> str:
    """Returns `lower its power limit: sudo nvidia-smi -i 2 -pl 550`; without a command if andon
    does not know which value the card accepts. andon itself changes nothing on a device."""
    watts = None if sample is None else sample.power_limit_watts
    watts = device.limits.power_default_watts if watts is None else watts
    own = device.vendor == NVIDIA.name and device.parent is None
    if not own or watts is None or watts < LEAST_WATTS:
        return LOWER_LIMIT
    step = 50 if watts >= COARSE_WATTS else 10
    lower = int(LOWER_SHARE * watts // step * step)
    return f"{LOWER_LIMIT}: sudo nvidia-smi -i {device.index} -pl {lower}"


def cooling_advice(view: View) -> str:
    """The advice for this device, without a full stop after a command that is to be copied."""
    text = COOLING.format(limit=lower_limit(view.device, view.sample))
    return text.removesuffix(".") if "nvidia-smi" in text else text


def throttling(view: View) -> HeatThrottling:
    """Returns whether heat slows the device down now."""
    celsius, slowdown = view.sample.temperature_celsius, view.device.limits.slowdown_celsius
    return heat_throttling(view.reasons or (), celsius, slowdown, view.figures)


def temperature(view: View) -> Clause:
    now, slowdown = view.read("temperature_celsius"), view.limit("slowdown_celsius")
    both = phrase("{t} (slows down at {s})", t=now, s=slowdown)
    return both or phrase("{t}", t=now)


def cooling(view: View) -> list[Evidence | None]:
    return [view.read("fan_percent"), view.read("memory_temperature_celsius")]


# The PromQL parts that the heat conditions share: the same meaning as `limits`.


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
