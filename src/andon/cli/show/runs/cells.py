"""Formats the numbers of a run, the same everywhere."""

import time

from andon.cli.show.text import Text, known
from andon.model.run.energy import POWER
from andon.units import human_joules, measured_seconds


def joules(value: float | None, source: str | None) -> Text:
    return known(value, lambda joules: human_joules(joules, source == POWER))


def length(seconds: float | None) -> Text:
    """Formats a duration; below a minute with tenths, because short runs are compared by them."""
    return known(seconds, measured_seconds)


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
