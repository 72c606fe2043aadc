"""Reads single fields of JSON that somebody else wrote; ValueError says which is not what it is."""

import math
from collections.abc import Mapping
from typing import Any


def number_in(value: Mapping[str, Any], name: str) -> Any:
    """A finite number as it stands there, or None."""
    found = value.get(name)
    if found is None or type(found) is int:
        return found
    if type(found) is not float or not math.isfinite(found):
        raise ValueError(f"{name} is {found!r}, not a number")
    return found


def time_in(value: Mapping[str, Any], name: str) -> float:
    found = number_in(value, name)
    if found is None:
        raise ValueError(f"{name} is missing")
    return float(found)


def text_in(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str):
        raise ValueError(f"{name} is {found!r}, not a text")
    return found


def words_of(exc: Exception) -> str:
    """What went wrong, where a field that is missing is a KeyError."""
    return f"{exc.args[0]} is missing" if isinstance(exc, KeyError) else str(exc)
