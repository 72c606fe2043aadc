"""Quiet hours as people write them, `22:00-07:00`, and when they hold and end."""

import re
from collections.abc import Callable

from msgspec import Struct

Offset = Callable[[float], float]
"""The seconds by which local time is ahead of UTC at a given time (varies with DST)."""

DAY_SECONDS = 86_400
_CLOCK = re.compile(r"\s*(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})\s*")


class QuietHours(Struct, frozen=True):
    """From one minute of the local day to another; across midnight if the end comes first."""

    begin_minute: int
    end_minute: int

    def holds(self, at: float, offset: Offset) -> bool:
        minute = (at + offset(at)) % DAY_SECONDS / 60
        if self.begin_minute < self.end_minute:
            return self.begin_minute <= minute < self.end_minute
        return minute >= self.begin_minute or minute < self.end_minute

    def ends(self, at: float, offset: Offset) -> float:
        """When the quiet hours next end; also correct when DST changes."""
        ahead = offset(at)
        passed = (at + ahead) % DAY_SECONDS
        left = (self.end_minute * 60 - passed) % DAY_SECONDS or DAY_SECONDS
        guess = at + left
        return max(at, guess + ahead - offset(guess))


def parse_quiet(text: str) -> QuietHours | None:
    """`22:00-07:00`; None for an empty text. Raises ValueError."""
    if not text.strip():
        return None
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time range (use 22:00-07:00)")
    begin, end = (_minute(found[n], found[n + 1], text) for n in (1, 3))
    if begin == end:
        raise ValueError(f"{text!r} is an empty time range: it ends when it begins")
    return QuietHours(begin, end)


def _minute(hour: str, minute: str, text: str) -> int:
    hours, minutes = int(hour), int(minute)
    if hours > 23 or minutes > 59:
        raise ValueError(f"{text!r} is not a time of day (use 00:00 to 23:59)")
    return 60 * hours + minutes
