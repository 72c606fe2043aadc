"""Times as people write them, as UTC seconds: `22:00`, `yesterday`, `Fri 18:00`, `2 days ago`."""

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from msgspec import Struct

from andon.errors import Invalid
from andon.units import has_unit, parse_seconds

Offset = Callable[[float], float]
"""The UTC offset of local time at an instant, in seconds."""

FORMS = (
    (("90m", "1h30m", "7d"), "that long ago; for a time to come, that long from now"),
    (("2 days ago", "in 2h"), "the same, whichever is asked for"),
    (("22:00", "10pm", "noon", "midnight"), "the last one; for a time to come, the next one"),
    (("now", "today", "yesterday", "tomorrow"), "now, and the beginning of a day"),
    (("today 9:00", "yesterday 10:30pm"), "a day and a time of day"),
    (("last night",), "yesterday 18:00"),
    (("Fri", "Fri 18:00"), "the last one; for a time to come, the next one"),
    (("last Fri 18:00", "next Mon"), "before today, after today"),
    (("15 Nov", "15 Nov 03:00", "15 Nov 2026 03:00"), "without a year as with a day of the week"),
    (("2026-11-15", "2026-11-15T03:00", "2026-11-15 03:00:00"), "local time"),
    (("2026-11-15T03:00Z", "2026-11-15T03:00+01:00"), "with its own zone"),
    (("1794711600", "@1794711600"), "UTC seconds since 1970, as JSON has them"),
)
"""Every form by examples, and what it means; the docs have the same list."""

LONGEST = 60  # characters
FURTHEST = 32_503_680_000.0  # the year 3000
NIGHTFALL = time(18)
_EPOCH = datetime(1970, 1, 1)
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_CLOCK = re.compile(r"(?<!\S)(\d\d?)(?=:| ?[ap]m)(?::(\d\d)(?::(\d\d))?)? ?([ap]m)?(?!\S)")
_STAMP = re.compile(r"(@?)(\d{1,12}(?:\.\d{1,9})?)")
_WEEKDAY = re.compile(r"(?:(last|next) )?([a-z]+)")
_DATE = re.compile(r"(?:(\d\d?) ([a-z]+)|([a-z]+) (\d\d?))(?: (\d{4}))?")
_CLOCKS = {"noon": time(12), "midnight": time(0)}
_DAYS = {"today": 0, "yesterday": -1, "tomorrow": 1}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip


class _Days(NamedTuple):
    """The candidate days of a text, and which of them is meant."""

    days: Sequence[date]
    recurs: bool = False
    """The last one, or the next one, at the time of day."""
    dated: bool = False
    """It means the same day whenever it is read."""


def parse_moment(
    text: str, now: float, offset: Offset, future: bool = False, exact: bool = False
) -> float:
    """Returns the instant that a text names, in local time; raises ValueError if it names none.

    A recurring time (`22:00`, `Fri`) is the last one, or with `future` the next one. A time that
    the clocks skip in spring is moved forward by the gap; of one that they repeat in autumn the
    first is used; with `exact` both are errors.
    """
    shown, examples = repr(text[:40]), f"use {_examples(future)}"
    plain = " ".join(re.sub(r",|(?<!\S)(?:at|on)(?!\S)", " ", text.lower()).split())
    if len(text) > LONGEST or not text.isascii():
        raise ValueError(f"{shown} is not a time: {examples}")
    with suppress(ValueError, OverflowError):
        found = _stamp(plain)
        if found is not None and 0 <= found <= FURTHEST:
            return found
    if not has_unit(plain) and len(plain) < 8:
        raise ValueError(f"{shown} has no unit: use {plain[:40]}h, or a time")
    found = None
    with suppress(ValueError, OverflowError):
        (found, doubt), dated = _spoken(plain, now, offset, future)
    if found is not None and 0 <= found <= FURTHEST and (found >= now or dated or not future):
        if exact and doubt:
            raise ValueError(f"{shown} {doubt}")
        return found
    fault = "is not a time" if found is None or found >= now else "is in the past"
    raise ValueError(f"{shown} {fault}: {examples}")


def _examples(future: bool) -> str:
    past = "2h, 22:00, yesterday, 'last night', 'today 9:00', 'Fri 18:00', '2 days ago'"
    coming = "2h, 22:30, 'tomorrow 8:00', 'Fri 18:00'"
    return f"{coming if future else past} or 2026-11-15T03:00"


def _stamp(text: str) -> float | None:
    """Parses UTC seconds, or a date and time with its zone."""
    if match := _STAMP.fullmatch(text):
        return float(match[2]) if match[1] or float(match[2]) >= 1e9 else None
    found = datetime.fromisoformat(text.upper())
    return None if found.tzinfo is None else found.timestamp()


_Instant = tuple[float, str]
"""UTC seconds, and why local clocks do not show them exactly once."""


def _spoken(text: str, now: float, offset: Offset, future: bool) -> tuple[_Instant, bool]:
    """Returns the instant, and whether the text would mean the same at another time."""
    if text == "now":
        return (now, ""), False
    with suppress(ValueError):
        return (now + _seconds_ahead(text, future), ""), False
    with suppress(ValueError):
        wall = datetime.fromisoformat(text.upper()).replace(tzinfo=None)
        return _instants(wall, offset)[0], True
    clock, rest = _clock(text)
    today = (_EPOCH + timedelta(seconds=now + offset(now))).date()
    if text == "last night":
        clock, rest = NIGHTFALL, "yesterday"
    found = _days(rest, today, future) if rest or clock is None else _Days(_around(today, 2), True)
    there = [
        at for day in found.days for at in _instants(datetime.combine(day, clock or time()), offset)
    ]
    if not found.recurs:
        return there[0], found.dated
    if future:
        return min(one for one in there if one[0] > now), False
    return max(one for one in there if one[0] <= now), False


def _seconds_ahead(text: str, future: bool) -> float:
    """How far a duration is from now, negative for the past; raises ValueError if it is none."""
    before, after = text.endswith(" ago"), text.startswith("in ")
    seconds = parse_seconds(re.sub(r"^an? ", "1 ", text.removeprefix("in ").removesuffix(" ago")))
    if before and after:
        raise ValueError("both past and to come")
    return seconds if after or (future and not before) else -seconds


def _clock(text: str) -> tuple[time | None, str]:
    """Returns the time of day in a text, if it has one, and the rest of the text."""
    for name, clock in _CLOCKS.items():
        if name in text.split():
            return clock, " ".join(word for word in text.split() if word != name)
    match = _CLOCK.search(text)
    if match is None:
        return None, text
    hour, minute, second = (int(part or 0) for part in match.groups()[:3])
    if match[4]:
        if not 1 <= hour <= 12:
            raise ValueError("no such hour")
        hour = hour % 12 + (12 if match[4] == "pm" else 0)
    rest = f"{text[: match.start()]} {text[match.end() :]}"
    return time(hour, minute, second), " ".join(rest.split())


def _days(text: str, today: date, future: bool) -> _Days:
    if text in _DAYS:
        return _Days([today + _DAYS[text] * _DAY])
    if match := _WEEKDAY.fullmatch(text):
        number = _number(match[2], _WEEKDAYS)
        days = [day for day in _around(today, 8) if day.weekday() == number]
        if match[1] == "last":
            return _Days([day for day in days if day < today][-1:])
        if match[1] == "next":
            return _Days([day for day in days if day > today][:1])
        return _Days(days, recurs=True)
    if match := _DATE.fullmatch(text):
        month, day = _number(match[2] or match[3], _MONTHS) + 1, int(match[1] or match[4])
        if match[5]:
            return _Days([date(int(match[5]), month, day)], dated=True)
        years = range(today.year - 8, today.year + 9)
        there = [date(y, month, day) for y in years if day <= monthrange(y, month)[1]]
        return _Days(there, recurs=True)
    return _Days([date.fromisoformat(text)], dated=True)


def _around(today: date, days: int) -> list[date]:
    return [today + place * _DAY for place in range(-days, days + 1)]


def _number(word: str, names: Sequence[str]) -> int:
    """Returns the index of the name that begins with this text of three letters or more; raises
    ValueError if none does."""
    if len(word) < 3:
        raise ValueError("not a name")
    return [name.startswith(word) for name in names].index(True)


def last_weekly(text: str, at: float, offset: Offset) -> float:
    """Returns the last time that was `Mon 08:00`, say; raises ValueError if it is not weekly."""
    day = text.lower().partition(" ")[0]
    if len(day) < 3 or not any(name.startswith(day) for name in _WEEKDAYS):
        raise ValueError(f"{text[:40]!r} is not weekly: use 'Mon 08:00'")
    return parse_moment(text, at, offset)


def weekly(
    begins: float, ends: float, weeks: int, offset: Offset, by_clock: bool
) -> list[tuple[float, float]]:
    """Returns the same time of so many weeks by local clocks, whatever DST does: the end, too, or
    as long after the start."""
    starts = [_weeks_later(begins, week, offset) for week in range(weeks)]
    if by_clock:
        return [(at, _weeks_later(ends, week, offset)) for week, at in enumerate(starts)]
    return [(at, at + ends - begins) for at in starts]


def _weeks_later(at: float, weeks: int, offset: Offset) -> float:
    """Returns when local clocks show the same time so many weeks later; raises Invalid where they
    do not, or do twice."""
    wall = _EPOCH + timedelta(seconds=at + offset(at)) + 7 * weeks * _DAY
    found, doubt = _instants(wall, offset)[0] if weeks else (at, "")
    if doubt:
        raise Invalid(f"{wall:%a %d %b %H:%M} {doubt}", hint="or reserve that week by itself")
    return found


def _instants(wall: datetime, offset: Offset) -> list[_Instant]:
    """Returns when local clocks show this time: once, twice, or moved forward if skipped."""
    flat = (wall - _EPOCH) / _SECOND
    before, after = offset(flat - 86_400), offset(flat + 86_400)
    shown = {flat - ahead for ahead in (before, after) if offset(flat - ahead) == ahead}
    doubt = ""
    if not shown:
        later = _EPOCH + timedelta(seconds=flat + after - before)
        doubt = f"does not exist: the clocks skip it; use {later:%Y-%m-%dT%H:%M}"
    elif len(shown) > 1:
        zones = " or ".join(f"{wall:%Y-%m-%dT%H:%M}{_zone(ahead)}" for ahead in (before, after))
        doubt = f"comes twice: the clocks go back; use {zones}"
    return [(at, doubt) for at in sorted(shown or {flat - before})]


def _zone(ahead: float) -> str:
    """Returns an offset as `+01:00`."""
    minutes = round(abs(ahead) / 60)
    return f"{'-' if ahead < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


# Quiet hours as people write them, `22:00-07:00`, and when they hold and end.

DAY_SECONDS = 86_400
_HOURS = re.compile(r"\s*(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})\s*")


class QuietHours(Struct, frozen=True):
    """A daily period by minutes of the local day; across midnight if its end comes first."""

    begin_minute: int
    end_minute: int

    def holds(self, at: float, offset: Offset) -> bool:
        minute = (at + offset(at)) % DAY_SECONDS / 60
        if self.begin_minute < self.end_minute:
            return self.begin_minute <= minute < self.end_minute
        return minute >= self.begin_minute or minute < self.end_minute

    def ends(self, at: float, offset: Offset) -> float:
        """Returns when the quiet hours next end; also correct when DST changes."""
        ahead = offset(at)
        passed = (at + ahead) % DAY_SECONDS
        left = (self.end_minute * 60 - passed) % DAY_SECONDS or DAY_SECONDS
        guess = at + left
        return max(at, guess + ahead - offset(guess))


def parse_quiet(text: str) -> QuietHours | None:
    """Parses `22:00-07:00`; None for an empty text. Raises ValueError."""
    if not text.strip():
        return None
    found = _HOURS.fullmatch(text)
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
