"""Utilisation in one word: idle, light, moderate or heavy."""

import math
from enum import StrEnum

LIGHT_TO_PERCENT = 25.0
MODERATE_TO_PERCENT = 75.0


class Band(StrEnum):
    """A utilisation in one word."""

    IDLE = "idle"
    LIGHT = "light"
    MODERATE = "moderate"
    HEAVY = "heavy"


def band(utilization_percent: float | None) -> Band | None:
    """Returns the band of a share in percent. None means "no data"; only 0 % is idle."""
    if utilization_percent is None or math.isnan(utilization_percent):
        return None
    if not utilization_percent:
        return Band.IDLE
    if utilization_percent <= LIGHT_TO_PERCENT:
        return Band.LIGHT
    return Band.MODERATE if utilization_percent <= MODERATE_TO_PERCENT else Band.HEAVY
