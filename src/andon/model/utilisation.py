"""Utilisation in one word, and every meaning of idle."""

import math
from enum import StrEnum
from typing import Final

# Utilisation in one word: idle, light, moderate or heavy.

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


# Every meaning of idle, once: how low a utilisation must be, and why each question differs.

ZERO_READING: Final = 0
"""Percent. Nothing ran since the last reading. For what is counted, charged or held against
someone: alerts about held devices, the idle share of runs and users, and the word "idle". A device
that does anything at all is in use, and what cannot be read is not idle."""

BARELY_BUSY_PERCENT: Final = 2
"""For explanations: a single sample of an idle card may read one or two per cent, and `why` must
not call that work."""

READING_LOAD_PERCENT: Final = 5
"""For letting a laptop's card sleep: being read costs an AMD or Intel card some per cent, so that
one which is read never appears fully idle. From here on it is in use by someone else."""

SCHEDULABLE_IDLE_PERCENT: Final = 10
"""For a load of our own, such as the selftest's: below this a desktop may be drawing, but no job is
disturbed."""
