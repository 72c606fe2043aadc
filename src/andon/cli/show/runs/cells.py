"""Formats the numbers of a run, the same everywhere."""

import time

from andon.cli.show.text import UNKNOWN, Text, styled
from andon.model.run.energy import POWER
from andon.units import fixed, human_bytes, human_joules, measured_seconds


def unknown() -> Text:
    return styled(UNKNOWN, "dim")


def percent(value: float | None) -> Text:
    return unknown() if value is None else styled(f"{fixed(value)} %")


def size(value: float | None) -> Text:
    return unknown() if value is None else styled(human_bytes(value))


def joules(value: float | None, source: str | None) -> Text:
    return unknown() if value is None else styled(human_joules(value, source == POWER))


def length(seconds: float | None) -> Text:
    """Formats a duration; below a minute with tenths, because short runs are compared by them."""
    if seconds is None:
        return unknown()
    return styled(measured_seconds(seconds))


def number(value: float) -> str:
    """Formats a program's own value in four digits."""
    return f"{value:.4g}"


def moment(at: float, now: float) -> str:
    """The local time; with the day if it is not today, and the year if it is not this one."""
    then, today = time.localtime(at), time.localtime(now)
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%d %b %H:%M" if then.tm_year == today.tm_year else "%Y-%m-%d", then)


def clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
