"""What "hot" and "thermally throttled" mean: for the alert rules, `why`, colours and PromQL."""

from collections.abc import Collection
from enum import IntEnum
from typing import NamedTuple

from andon.core.conditions.thresholds import Thresholds
from andon.model.throttling import (
    HW_SLOWDOWN,
    HW_THERMAL,
    POWER_BRAKE,
    SW_THERMAL,
    TEMPERATURE_LIMIT,
)

HEAT_REASONS = frozenset({SW_THERMAL.name, HW_THERMAL.name})
"""The throttle reasons that mean heat whatever the temperature."""


class HeatLimits(NamedTuple):
    """From which temperatures a device is hot, by its own slowdown temperature if it reports one.

    Below `shown` it is not hot; from `notify` on it is close to being slowed down.
    """

    shown: float
    notify: float
    critical: float


class HeatThrottling(IntEnum):
    """Whether heat slows a device down, and who does it."""

    NONE = 0
    DRIVER = 1
    HARDWARE = 2


def heat_limits(slowdown: float | None, figures: Thresholds) -> HeatLimits:
    """The limits of a device with this slowdown temperature."""
    if slowdown is None:
        return HeatLimits(
            figures.thermal_celsius,
            figures.thermal_notify_celsius,
            figures.thermal_critical_celsius,
        )
    notify = slowdown - figures.thermal_margin_celsius
    return HeatLimits(min(figures.thermal_celsius, notify), notify, slowdown)


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
    if not reasons:
        return HeatThrottling.NONE
    if HW_THERMAL.name in reasons:
        return HeatThrottling.HARDWARE
    unexplained = HW_SLOWDOWN.name in reasons and POWER_BRAKE.name not in reasons
    if unexplained and slowdown is not None and celsius is not None and celsius >= slowdown:
        return HeatThrottling.HARDWARE
    if SW_THERMAL.name in reasons:
        return HeatThrottling.DRIVER
    limited = TEMPERATURE_LIMIT.name in reasons and celsius is not None
    if limited and (celsius or 0) >= heat_limits(slowdown, figures).shown:
        return HeatThrottling.DRIVER
    return HeatThrottling.NONE
