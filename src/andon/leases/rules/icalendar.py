"""Reservations as an iCalendar (RFC 5545), for the calendars of people; pure."""

from collections.abc import Iterable
from datetime import UTC, datetime

from andon.model.lease import Reservation
from andon.model.naming import range_of

TYPE = "text/calendar; charset=utf-8"
LONGEST_LINE = 75
"""Octets of a line; a longer one goes on in the next, after a space."""


def calendar(reservations: Iterable[Reservation], node: str, at: float) -> str:
    """Returns a calendar with an event for each reservation; `at` is when it was made."""
    lines = [
        "BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//andon//reservations//EN", "METHOD:PUBLISH",
        f"X-WR-CALNAME:{_text(f'GPUs of {node}')}", "REFRESH-INTERVAL;VALUE=DURATION:PT15M",
        *(line for one in reservations for line in _event(one, node, at)), "END:VCALENDAR",
    ]  # fmt: skip
    return "".join(f"{_folded(line)}\r\n" for line in lines)


def _event(one: Reservation, node: str, at: float) -> tuple[str, ...]:
    gpus = f"GPU {range_of([str(device.index) for device in one.devices])}"
    what = f": {one.name}" if one.name else ""
    return (
        "BEGIN:VEVENT", f"UID:{_text(f'{one.id}-{one.uid}-{node}')}@andon", f"DTSTAMP:{_utc(at)}",
        f"DTSTART:{_utc(one.begins)}", f"DTEND:{_utc(one.ends)}",
        f"SUMMARY:{_text(f'{gpus} of {node}, {one.user}{what}')}", f"LOCATION:{_text(node)}",
        "END:VEVENT",
    )  # fmt: skip


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%SZ")


def _text(value: str) -> str:
    """Returns a text value; its owner may have written anything into a name."""
    plain = "".join(c if c.isprintable() else " " for c in value)
    return plain.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,")


def _folded(line: str) -> str:
    """Returns a line in parts of so many octets, none of which parts a character."""
    parts, length = [""], 0
    for character in line:
        size = len(character.encode())
        if length + size > LONGEST_LINE:
            parts.append(" ")
            length = 1
        parts[-1] += character
        length += size
    return "\r\n".join(parts)
