"""Reads JSON of another program into the dataclasses that describe it; everything has bounds."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import EnumType
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from andon.model.json_fields import LONGEST, MOST, MOST_ITEMS, Wrong, shown


def read_as(kind: Any, value: object, longest: int = LONGEST) -> Any:
    """The value as this type; Wrong names the field that is not as it should be. `longest` is in
    characters, of each text."""
    if get_origin(kind) is Annotated:
        return read_as(get_args(kind)[0], value, longest)
    if kind in (bool, int, float, str, NoneType):
        return _plain(kind, value, longest)
    if isinstance(kind, EnumType):
        try:
            return kind(_plain(str, value, longest))
        except ValueError as exc:
            raise Wrong("", f"is {shown(value)}, not a {kind.__name__}") from exc
    if is_dataclass(kind):
        return _fields(kind, value, longest)
    return _generic(kind, value, longest)


def _plain(kind: type, value: object, longest: int) -> Any:
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise Wrong("", f"is {shown(value)}, not {kind.__name__}")
    if isinstance(value, str) and len(value) > longest:
        raise Wrong("", f"has {len(value)} characters")
    if isinstance(value, float) and not math.isfinite(value):
        raise Wrong("", "is not a finite number")
    if isinstance(value, int | float) and abs(value) > MOST:
        raise Wrong("", "is out of range")
    return value


def _fields(kind: Any, value: object, longest: int) -> Any:
    found = _table(value)
    out: dict[str, Any] = {}
    for one in fields(kind):
        if one.name in found:
            out[one.name] = _within(one.name, one.type, found[one.name], longest)
        elif one.default is MISSING and one.default_factory is MISSING:
            raise Wrong(one.name, "is missing")
    return kind(**out)


def _generic(kind: Any, value: object, longest: int) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _any_of(arguments, value, longest)
    if origin in (list, tuple):
        if not isinstance(value, list) or len(value) > MOST_ITEMS:
            raise Wrong("", f"is {shown(value)}, not a list of at most {MOST_ITEMS}")
        items = (_within(f"[{n}]", arguments[0], one, longest) for n, one in enumerate(value))
        return origin(items)
    if origin in (Mapping, dict):
        found = _table(value)
        if len(found) > MOST_ITEMS or any(len(name) > longest for name in found):
            raise Wrong("", "has too many or too long names")
        return {n: _within(n[:40], arguments[1], one, longest) for n, one in found.items()}
    raise TypeError(f"no JSON for {kind!r}")


def _any_of(kinds: tuple[Any, ...], value: object, longest: int) -> Any:
    wrong: Wrong | None = None
    for kind in kinds:
        try:
            return read_as(kind, value, longest)
        except Wrong as exc:
            wrong = exc
    raise wrong or Wrong("", "has no type")


def _within(place: str, kind: Any, value: object, longest: int) -> Any:
    try:
        return read_as(kind, value, longest)
    except Wrong as wrong:
        raise wrong.within(place) from wrong


def _table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Wrong("", f"is {shown(value)}, not an object")
    return value
