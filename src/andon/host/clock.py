"""The clocks, and local time: this node's, or that of a named time zone."""

import os
import re
import time
from collections.abc import Callable
from datetime import datetime

from andon.errors import Invalid

_POSIX_ZONE = re.compile(r"(?:[A-Za-z]{3,}|<[\w+-]+>)[+-]?\d|UTC$|GMT$")
"""Such as `CET-1CEST`."""


def offset(zone: str = "", of: str = "alerts.time_zone: ") -> Callable[[float], float]:
    """Returns the UTC offset in seconds at an instant; an empty name means this node's zone. `of`
    says what named the zone."""
    if not zone:
        return lambda at: float(time.localtime(at).tm_gmtoff)
    from zoneinfo import ZoneInfo

    try:
        found = ZoneInfo(zone)
    except (OSError, ValueError, KeyError) as exc:  # an unknown name is a KeyError
        raise Invalid(
            f"{of}unknown time zone {zone[:60]!r}",
            hint='use a name such as "Europe/Berlin"; the package tzdata provides them',
        ) from exc

    def ahead(at: float) -> float:
        offset = datetime.fromtimestamp(at, found).utcoffset()
        return 0.0 if offset is None else offset.total_seconds()

    return ahead


def unknown_zone() -> str | None:
    """Returns the name in TZ if this machine does not know it: the C library then takes UTC."""
    zone = os.environ.get("TZ", "").removeprefix(":")
    if not zone or zone.startswith("/") or _POSIX_ZONE.match(zone):
        return None
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(zone)
    except (OSError, ValueError, KeyError):
        return zone
    return None


def clocks() -> tuple[float, float]:
    """Returns the wall clock, and a clock that is never set."""
    return time.time(), boot_seconds()


def boot_seconds() -> float:
    """Seconds since boot, including sleep; setting the clock does not change it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
