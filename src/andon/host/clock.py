"""Local time: this node's, or that of a zone by name."""

import time
from collections.abc import Callable

from andon.errors import Invalid


def offset(zone: str = "") -> Callable[[float], float]:
    """By how many seconds local time is ahead of UTC at an instant; an empty name is this node."""
    if not zone:
        return lambda at: float(time.localtime(at).tm_gmtoff)
    from datetime import datetime
    from zoneinfo import ZoneInfo

    try:
        found = ZoneInfo(zone)
    except (OSError, ValueError, KeyError) as exc:  # a name that is not there is a KeyError
        raise Invalid(
            f"alerts.time_zone: {zone[:60]!r} is not a time zone that is known here",
            hint='such as "Europe/Berlin"; the package tzdata has them',
        ) from exc

    def ahead(at: float) -> float:
        there = datetime.fromtimestamp(at, found).utcoffset()
        return 0.0 if there is None else there.total_seconds()

    return ahead


def boot_seconds() -> float:
    """Since the boot, sleep included; no clock that is set can move it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
