"""Types of options that are times: `22:00` is the last one, or for a future time the next one."""

import time

import click

from andon.host.clock import offset, unknown_zone
from andon.settings.moments import parse_moment


def moment(text: str) -> float:
    """Parses a past time such as `yesterday`, `22:00` (the last one) or `2h` (ago)."""
    return _parsed(text, future=False)


def coming_moment(text: str) -> float:
    """Parses a future time such as `22:00` (the next one), `Fri 18:00` or `2h` (from now)."""
    return _parsed(text, future=True)


def exact_moment(text: str, after: float | None = None) -> float:
    """Parses a future time that local clocks show exactly once, in a zone that is known; the next
    one after now, or after a later time."""
    if (zone := unknown_zone()) is not None:
        raise click.BadParameter(f"the time zone TZ={zone[:60]!r} is not known here")
    return _parsed(text, future=True, exact=True, now=after)


def _parsed(text: str, future: bool, exact: bool = False, now: float | None = None) -> float:
    try:
        return parse_moment(text, time.time() if now is None else now, offset(), future, exact)
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from exc


since_option = click.option(
    "--since",
    default="24h",
    show_default=True,
    type=moment,
    metavar="WHEN",
    help="Start: 24h, yesterday, 'Fri 18:00', 2026-11-15T03:00.",
)
