"""What "hot" and "thermally throttled" mean: for the alert rules, `why`, colours and PromQL."""

from collections.abc import Collection
from enum import IntEnum

from andon.model.thresholds import Figure, Thresholds
from andon.model.throttling import (
    HW_SLOWDOWN,
    HW_THERMAL,
    POWER_BRAKE,
    SW_THERMAL,
    TEMPERATURE_LIMIT,
)

CELSIUS = Figure(
    "thermal_celsius",
    80.0,
    "the temperature from which a device is shown as too hot",
    0,
    150,
    switch=True,
)
MARGIN_CELSIUS = Figure(
    "thermal_margin_celsius", 5.0, "how far below its own slowdown temperature to notify", 0, 50
)
NOTIFY_CELSIUS = Figure(
    "thermal_notify_celsius",
    90.0,
    "temperature to notify at for a device that reports no slowdown temperature",
    0,
    150,
)
CRITICAL_CELSIUS = Figure(
    "thermal_critical_celsius", 95.0, "critical temperature for such a device", 0, 150
)

_SW, _HW, _SLOWDOWN = SW_THERMAL.name, HW_THERMAL.name, HW_SLOWDOWN.name
_BRAKE, _LIMIT = POWER_BRAKE.name, TEMPERATURE_LIMIT.name
HEAT_REASONS = frozenset({_SW, _HW})
"""The throttle reasons that mean heat whatever the temperature."""
PERHAPS_HEAT = HEAT_REASONS | {_SLOWDOWN, _LIMIT}
"""Those, and the reasons that mean heat at a high temperature."""


class HeatThrottling(IntEnum):
    """Whether heat slows a device down, and whether the driver or the hardware does it."""

    NONE = 0
    DRIVER = 1
    HARDWARE = 2


NOT_THROTTLED, BY_DRIVER, BY_HARDWARE = HeatThrottling  # a member's own lookup is slow


def hot_from(slowdown: float | None, figures: Thresholds) -> float:
    """From which temperature a device with this slowdown temperature is hot."""
    shown = figures.thermal_celsius
    if slowdown is None:
        return shown
    notify = slowdown - figures.thermal_margin_celsius
    return notify if notify < shown else shown


def notify_from(slowdown: float | None, figures: Thresholds) -> float:
    """From which temperature people are notified of such a device."""
    if slowdown is None:
        return figures.thermal_notify_celsius
    return slowdown - figures.thermal_margin_celsius


def critical_from(slowdown: float | None, figures: Thresholds) -> float:
    """Returns the temperature from which such a device's heat is critical."""
    return figures.thermal_critical_celsius if slowdown is None else slowdown


def heat_throttling(
    reasons: Collection[str],
    celsius: float | None,
    slowdown: float | None,
    figures: Thresholds,
) -> HeatThrottling:
    """Whether heat slows it down, given its throttle reasons and its temperature.

    Two reasons mean heat only if the temperature agrees. Old drivers report the hardware's
    slowdown without its cause: that is heat at the device's own slowdown temperature. AMD sets its
    temperature limiter on healthy cards too: that is heat where the device is hot.
    """
    if _HW in reasons:
        return BY_HARDWARE
    if PERHAPS_HEAT.isdisjoint(reasons):
        return NOT_THROTTLED
    unexplained = _SLOWDOWN in reasons and _BRAKE not in reasons
    if unexplained and slowdown is not None and celsius is not None and celsius >= slowdown:
        return BY_HARDWARE
    if _SW in reasons:
        return BY_DRIVER
    limited = _LIMIT in reasons and celsius is not None
    if limited and (celsius or 0) >= hot_from(slowdown, figures):
        return BY_DRIVER
    return NOT_THROTTLED
