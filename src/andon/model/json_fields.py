"""Validates single fields of JSON from another program: type, range and length.

An invalid field raises `Wrong` with its place: `devices[3].pci is 5, not a string`. A recorded file
or a server is as untrusted as the network, and an invalid number would spread.
"""

import math
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

Json = Mapping[str, Any]
E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")

MOST: float = 2**64
"""No number is larger: a driver may report all 64 bits set."""
LATEST = 250_000_000_000.0
"""In the year 9892: every clock and calendar here can show it."""
LONGEST = 16_384
"""Characters of a string; a redacted command line has a quarter of that."""
NAME = 512
"""Characters of a name: of a device, a user, a container."""
LONGEST_ID = 64
"""Characters of an id: of a run, a lease, a silence."""
MOST_ITEMS = 65_536
MOST_PID = 2**32 - 1
_SHOWN = 40
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class Wrong(ValueError):
    """An invalid field."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place} {problem}" if place else problem)
        self.place, self.problem = place, problem

    def within(self, place: str) -> "Wrong":
        """The same error, with the outer place in front."""
        joint = "" if not self.place or self.place.startswith("[") else "."
        return Wrong(f"{place}{joint}{self.place}", self.problem)


def number_in(value: Json, name: str, low: float = -MOST, high: float = MOST) -> Any:
    """A finite number, unchanged, or None."""
    found = value.get(name)
    if found is None:
        return None
    if type(found) is not int and (type(found) is not float or not math.isfinite(found)):
        raise Wrong(name, f"is {shown(found)}, not a number")
    if not low <= found <= high:
        raise Wrong(name, f"is {shown(found)}, which is out of range")
    return found


def rounded_in(value: Json, name: str) -> int | None:
    """The same as a whole number."""
    found = number_in(value, name)
    return round(found) if type(found) is float else found


def whole_in(value: Json, name: str, high: float = MOST) -> int:
    """A required whole number of at least 0."""
    found = some_whole_in(value, name, high)
    if found is None:
        raise Wrong(name, "is missing")
    return found


def some_whole_in(value: Json, name: str, high: float = MOST) -> int | None:
    """The same, or None."""
    found = number_in(value, name, 0, high)
    if found is not None and type(found) is not int:
        raise Wrong(name, f"is {shown(found)}, not a whole number")
    return found


def time_in(value: Json, name: str) -> float:
    """Required UTC seconds."""
    found = some_time_in(value, name)
    if found is None:
        raise Wrong(name, "is missing")
    return found


def some_time_in(value: Json, name: str) -> float | None:
    """UTC seconds, or None."""
    found = number_in(value, name, 0.0, LATEST)
    return None if found is None else float(found)


def text_in(value: Json, name: str, longest: int = LONGEST) -> str:
    """A required string that can be written to any terminal or file."""
    found = some_text_in(value, name, longest)
    if found is None:
        raise Wrong(name, "is None, not a string" if name in value else "is missing")
    return found


def some_text_in(value: Json, name: str, longest: int = LONGEST) -> str | None:
    """The same, or None."""
    found = value.get(name)
    return None if found is None else text_of(found, name, longest)


def text_of(found: object, name: str, longest: int = LONGEST) -> str:
    """The value as a string; a lone surrogate is rejected, because no encoding has it."""
    if not isinstance(found, str):
        raise Wrong(name, f"is {shown(found)}, not a string")
    if len(found) > longest:
        raise Wrong(name, f"has {len(found)} characters, more than {longest}")
    if not found.isascii():
        try:
            found.encode()
        except UnicodeEncodeError:
            raise Wrong(name, f"is {shown(found)}, not a string") from None
    return found


def id_in(value: Json, name: str) -> str:
    """A required id, which may be a part of a path, of a command line and of a log's line."""
    found = text_in(value, name, LONGEST_ID)
    if not _ID.fullmatch(found):
        raise Wrong(name, f"is {shown(found)}, not an id")
    return found


def some_id_in(value: Json, name: str) -> str | None:
    """The same, or None."""
    return None if value.get(name) is None else id_in(value, name)


def alert_id_in(value: Json, name: str) -> str:
    """`thermal@GPU-3#1767614000`: it contains the name of what the alert is about, on one line."""
    found = text_in(value, name, NAME)
    if not found or not found.isprintable():
        raise Wrong(name, f"is {shown(found)}, not an id")
    return found


def flag_in(value: Json, name: str, default: bool = False) -> bool:
    found = value.get(name)
    if found is None:
        return default
    if type(found) is not bool:
        raise Wrong(name, f"is {shown(found)}, neither true nor false")
    return found


def some_flag_in(value: Json, name: str) -> bool | None:
    """True, false, or None."""
    return None if value.get(name) is None else flag_in(value, name)


def choice_in(value: Json, name: str, kind: type[E]) -> E:
    """One of the values of an enum."""
    found = value.get(name)
    try:
        return kind(found or "")
    except (ValueError, TypeError):
        known = ", ".join(kind)
        raise Wrong(name, f"is {shown(found)}, not one of: {known}") from None


def table_of(value: object) -> dict[str, Any]:
    """The value as a table."""
    if type(value) is not dict:
        raise Wrong("", f"is {shown(value)}, not a table")
    return value


def inside(value: Json, name: str, read: Callable[[dict[str, Any]], T]) -> T | None:
    """Read a table in a field; None if there is none."""
    found = value.get(name)
    if found is None:
        return None
    try:
        return read(table_of(found))
    except Wrong as wrong:
        raise wrong.within(name) from None


def each_in(
    value: Json, name: str, read: Callable[[dict[str, Any]], T], most: int = MOST_ITEMS
) -> list[T]:
    """Read a list of tables one by one; empty if there is none."""
    found = value.get(name)
    if found is None:
        return []
    if not isinstance(found, (list, tuple)):
        raise Wrong(name, f"is {shown(found)}, not a list")
    if len(found) > most:
        raise Wrong(name, f"has {len(found)} items, more than {most}")
    items: list[T] = []
    for item in found:
        try:
            items.append(read(table_of(item)))
        except Wrong as wrong:
            raise wrong.within(f"{name}[{len(items)}]") from None
    return items


def texts_in(value: Json, name: str) -> dict[str, str]:
    """A table of strings; empty if there is none."""
    found = inside(value, name, lambda table: table)
    if found is None:
        return {}
    if len(found) > MOST_ITEMS:
        raise Wrong(name, f"has {len(found)} items, more than {MOST_ITEMS}")
    places = {key: f"{name}.{key_shown(key)}" for key in found}
    return {
        text_of(key, places[key], NAME): text_of(text, places[key]) for key, text in found.items()
    }


def names_in(value: Json, name: str, most: int = MOST_ITEMS) -> tuple[str, ...]:
    """A list of short texts; empty if there is none."""
    found = value.get(name)
    if found is None:
        return ()
    if not isinstance(found, (list, tuple)) or len(found) > most:
        raise Wrong(name, f"is {shown(found)}, not a list of at most {most} names")
    return tuple(text_of(one, f"{name}[{place}]", NAME) for place, one in enumerate(found))


def shown(value: object) -> str:
    """A short form for messages."""
    if type(value) is int and abs(value) > MOST:
        return "a huge number"
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a table"
    text = ascii(value[: 2 * _SHOWN]) if isinstance(value, str) else ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def key_shown(key: str) -> str:
    """A short form of a foreign name for messages."""
    return ascii(key[:_SHOWN])[1:-1]
