"""Formats the numbers of reports: precise enough to compare, short enough for a table."""

import time

from andon.cli.show.text import UNKNOWN
from andon.model.run.energy import POWER
from andon.units import GIB, fixed, human_bytes, human_joules, measured_seconds, unit_of

HOUR = 3600.0
LEAST_HOURS = 0.001


def seconds_text(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else measured_seconds(seconds)


def three(value: float) -> str:
    """Formats a number with three digits, without an exponent where that is readable."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return fixed(value) if size < 1e6 else f"{value:.3g}"
    if size >= 10:
        return fixed(value, 1)
    return fixed(value, 2) if size >= 1 else f"{value:.3g}"


def percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{fixed(100 * share)} %"


def size(count: float | None) -> str:
    return UNKNOWN if count is None else human_bytes(count)


def energy(joules: float | None, source: str | None = None) -> str:
    return UNKNOWN if joules is None else human_joules(joules, source == POWER)


def hours(seconds: float | None) -> str:
    """GPU hours."""
    if seconds is None:
        return UNKNOWN
    if 0 < seconds / HOUR < LEAST_HOURS:
        return f"below {LEAST_HOURS} h"
    return f"{three(seconds / HOUR)} h"


def reading(name: str, value: float | None) -> str:
    """Formats a reading for its column, without its unit."""
    if value is None:
        return UNKNOWN
    if unit_of(name) == "bytes":
        return fixed(value / GIB, 1)
    return fixed(value)


def rate(per_second: float | None, what: str) -> str:
    """Formats a rate, never below one: `3.20 items/s`, `48.0 items/h`."""
    if per_second is None:
        return UNKNOWN
    for factor, unit in ((1.0, "s"), (60.0, "min"), (HOUR, "h")):
        if per_second * factor >= 1 or unit == "h":
            return f"{three(per_second * factor)} {what}/{unit}"
    raise AssertionError


def when(at: float) -> str:
    """Local time."""
    return time.strftime("%d %b %Y %H:%M:%S", time.localtime(at))
