"""The clocks, and local time: this node's, or that of a named time zone."""

import time
from collections.abc import Callable
from datetime import datetime

from andon.errors import Invalid


def offset(zone: str = "") -> Callable[[float], float]:
    """Returns the UTC offset in seconds at an instant; an empty name means this node's zone."""
    if not zone:
        return lambda at: float(time.localtime(at).tm_gmtoff)
    from zoneinfo import ZoneInfo

    try:
        found = ZoneInfo(zone)
    except (OSError, ValueError, KeyError) as exc:  # an unknown name is a KeyError
        raise Invalid(
            f"alerts.time_zone: unknown time zone {zone[:60]!r}",
            hint='use a name such as "Europe/Berlin"; the package tzdata provides them',
        ) from exc

    def ahead(at: float) -> float:
        offset = datetime.fromtimestamp(at, found).utcoffset()
        return 0.0 if offset is None else offset.total_seconds()

    return ahead


def clocks() -> tuple[float, float]:
    """Returns the wall clock, and a clock that is never set."""
    return time.time(), boot_seconds()


def boot_seconds() -> float:
    """Seconds since boot, including sleep; setting the clock does not change it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
