"""Parses the time before which a job must not start."""

from contextlib import suppress
from datetime import datetime, timedelta

from andon.units import has_unit, parse_seconds

TIME_FORMS = "use 2h, 22:30 or 2026-11-15T03:00"


def begin_at(text: str, now: float) -> float:
    """`2h` from now, the next `22:30`, or a time; ValueError for anything else."""
    with suppress(ValueError):
        seconds = parse_seconds(text)
        if has_unit(text):
            return now + seconds
    with suppress(ValueError):
        clock = datetime.strptime(text, "%H:%M").time()
        there = datetime.combine(datetime.fromtimestamp(now).date(), clock)
        return (there if there.timestamp() > now else there + timedelta(days=1)).timestamp()
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as exc:
        raise ValueError(f"{text[:40]!r} is not a time ({TIME_FORMS})") from exc
