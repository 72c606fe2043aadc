"""Parses a moment on the command line: an age or a time."""

import time
from contextlib import suppress
from datetime import datetime

import click

from andon.units import has_unit, parse_seconds


def moment(text: str) -> float:
    """`2h` ago, `now`, or a time such as 2026-11-15T03:00."""
    if text == "now":
        return time.time()
    with suppress(ValueError):
        seconds = parse_seconds(text)
        if not has_unit(text):
            number = text.strip()[:40]
            raise click.BadParameter(f"{number!r} has no unit: use {number}h, or a time")
        return time.time() - seconds
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as exc:
        shown = f"{text[:40]!r} is not a time (use 24h or 2026-11-15T03:00)"
        raise click.BadParameter(shown) from exc
