"""Utilisation in one word, and one mean for several devices."""

import math
from collections.abc import Iterable
from enum import StrEnum

from andon.core.sampling.idleness import ZERO_READING
from andon.model.device import DeviceStatus

LIGHT_TO_PERCENT = 25.0
MODERATE_TO_PERCENT = 75.0


class Band(StrEnum):
    """A utilisation in one word."""

    IDLE = "idle"
    LIGHT = "light"
    MODERATE = "moderate"
    HEAVY = "heavy"


def band(utilization_percent: float | None) -> Band | None:
    """None means "no data"; 0 % is a real reading, and the only one that is idle."""
    if utilization_percent is None or math.isnan(utilization_percent):
        return None
    if utilization_percent <= ZERO_READING:
        return Band.IDLE
    if utilization_percent <= LIGHT_TO_PERCENT:
        return Band.LIGHT
    return Band.MODERATE if utilization_percent <= MODERATE_TO_PERCENT else Band.HEAVY


def mean_utilization(statuses: Iterable[DeviceStatus]) -> float | None:
    """The mean over the boards that answered; None if none did.

    A board counts once: by its own reading, else by the mean of its instances.
    """
    boards: dict[str, float] = {}
    instances: dict[str, list[float]] = {}
    for status in statuses:
        busy = status.sample.utilization_percent if status.answered and status.sample else None
        if busy is None:
            continue
        if status.device.parent is None:
            boards[status.device.uuid] = busy
        else:
            instances.setdefault(status.device.parent, []).append(busy)
    means = {parent: sum(busy) / len(busy) for parent, busy in instances.items()} | boards
    return sum(means.values()) / len(means) if means else None
