"""Reads single fields of JSON that another program wrote: type, range and length, with the place.

What is wrong is a `Wrong`, which says where: `devices[3].pci is 5, not a text`. A recorded file and
a server are as foreign as the network, and a number that is none would spread.
"""

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

Json = Mapping[str, Any]
E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")

MOST: float = 2**64
"""No number is larger: all 64 bits set is what a driver may say of anything."""
LATEST = 250_000_000_000.0
"""Some day of the year 9892: every clock and calendar here can still say it."""
LONGEST = 16_384
"""Characters of a text; a redacted command line has a quarter of that."""
NAME = 512
"""Characters of a name: of a device, a user, a container."""
MOST_ITEMS = 65_536
MOST_PID = 2**32 - 1
_SHOWN = 40


class Wrong(ValueError):
    """A field that is not what it should be."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place} {problem}" if place else problem)
        self.place, self.problem = place, problem

    def within(self, place: str) -> "Wrong":
        """The same, seen from further out."""
        joint = "" if not self.place or self.place.startswith("[") else "."
        return Wrong(f"{place}{joint}{self.place}", self.problem)


def number_in(value: Json, name: str, low: float = -MOST, high: float = MOST) -> Any:
    """A finite number as it stands there, or None."""
    found = value.get(name)
    if found is None:
        return None
    if type(found) is not int and (type(found) is not float or not math.isfinite(found)):
        raise Wrong(name, f"is {shown(found)}, not a number")
    if not low <= found <= high:
        raise Wrong(name, f"is {shown(found)}, which is out of range")
    return found


def whole_in(value: Json, name: str, high: float = MOST) -> int:
    """A whole number from 0 up; there must be one."""
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
    """UTC seconds; there must be some."""
    found = some_time_in(value, name)
    if found is None:
        raise Wrong(name, "is missing")
    return found


def some_time_in(value: Json, name: str) -> float | None:
    """UTC seconds, or None."""
    found = number_in(value, name, 0.0, LATEST)
    return None if found is None else float(found)


def text_in(value: Json, name: str, longest: int = LONGEST) -> str:
    """A text that can be written to any terminal or file; there must be one."""
    found = some_text_in(value, name, longest)
    if found is None:
        raise Wrong(name, "is None, not a text" if name in value else "is missing")
    return found


def some_text_in(value: Json, name: str, longest: int = LONGEST) -> str | None:
    """The same, or None."""
    found = value.get(name)
    return None if found is None else text_of(found, name, longest)


def text_of(found: object, name: str, longest: int = LONGEST) -> str:
    """This very value as a text; half a surrogate is none, because no encoding has it."""
    if not isinstance(found, str):
        raise Wrong(name, f"is {shown(found)}, not a text")
    if len(found) > longest:
        raise Wrong(name, f"has {len(found)} characters, more than {longest}")
    if not found.isascii():
        try:
            found.encode()
        except UnicodeEncodeError:
            raise Wrong(name, f"is {shown(found)}, not a text") from None
    return found


def flag_in(value: Json, name: str, default: bool = False) -> bool:
    found = value.get(name)
    if found is None:
        return default
    if type(found) is not bool:
        raise Wrong(name, f"is {shown(found)}, neither true nor false")
    return found


def choice_in(value: Json, name: str, kind: type[E]) -> E:
    """One of a few words."""
    found = value.get(name)
    try:
        return kind(found or "")
    except (ValueError, TypeError):
        known = ", ".join(kind)
        raise Wrong(name, f"is {shown(found)}, not one of: {known}") from None


def table_of(value: object) -> dict[str, Any]:
    """This very value as a table."""
    if type(value) is not dict:
        raise Wrong("", f"is {shown(value)}, not a table")
    return value


def inside(value: Json, name: str, read: Callable[[dict[str, Any]], T]) -> T | None:
    """A table in a field, read; None where there is none."""
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
    """A list of tables, read one by one; none where there is none."""
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
    """A table of texts; empty where there is none."""
    found = inside(value, name, lambda table: table)
    if found is None:
        return {}
    if len(found) > MOST_ITEMS:
        raise Wrong(name, f"has {len(found)} items, more than {MOST_ITEMS}")
    places = {key: f"{name}.{key_shown(key)}" for key in found}
    return {
        text_of(key, places[key], NAME): text_of(text, places[key]) for key, text in found.items()
    }


def shown(value: object) -> str:
    """As much of it as a message has room for."""
    if type(value) is int and abs(value) > MOST:
        return "a number without end"
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a table"
    text = ascii(value[: 2 * _SHOWN]) if isinstance(value, str) else ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def key_shown(key: str) -> str:
    """As much of a name that another program chose as a message has room for."""
    return ascii(key[:_SHOWN])[1:-1]
