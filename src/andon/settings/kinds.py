"""The types of settings: what each allows, as text, and how it is parsed."""

import math
import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from andon.units import parse_seconds


class ValueKind(Struct, frozen=True):
    """A type of value: its description, and its parser, which raises ValueError."""

    expected: str
    read: Callable[[object], object]
    show: Callable[[object], object] = lambda value: value
    """The value as it may be printed, also one that is not allowed."""


class TableKey(Struct, frozen=True):
    """One key of a table, for parsing and for the docs."""

    name: str
    kind: ValueKind
    help: str


def matching(form: re.Pattern[str]) -> Callable[[object], str]:
    """Returns a parser of text that has this form."""

    def read(value: object) -> str:
        if not isinstance(value, str) or form.fullmatch(value) is None:
            raise ValueError
        return value

    return read


def repr_without(*hidden: str) -> Callable[[Any], str]:
    """Returns a `__repr__` that leaves these fields out."""

    def shown(value: Any) -> str:
        names = (name for name in value.__struct_fields__ if name not in hidden)
        inside = ", ".join(f"{name}={getattr(value, name)!r}" for name in names)
        return f"{type(value).__name__}({inside})"

    return shown


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError
    return value


def _folder(value: object) -> str:
    if not _text(value).startswith("/"):
        raise ValueError
    return _text(value)


def _word(value: object) -> str:
    if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", _text(value), re.ASCII):
        raise ValueError
    return _text(value)


def _names(value: object) -> tuple[str, ...]:
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not listed:
        raise ValueError
    names = tuple(_text(name).strip() for name in listed)
    if not all(names):
        raise ValueError
    return names


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    return int(value)


def _yes_or_no(value: object) -> bool:
    if isinstance(value, str):
        value = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(
            value.lower()
        )
    if not isinstance(value, bool):
        raise ValueError
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def _seconds(value: object) -> float:
    return _number(parse_seconds(value) if isinstance(value, str) else value)


def _or_off(read: Callable[[object], float]) -> Callable[[object], float | None]:
    # By identity: 0 is a number, although it equals False.
    return lambda value: None if value == "off" or value is False else read(value)


def _quiet(value: object) -> str:
    from andon.settings.moments import parse_quiet  # only if quiet hours are set

    parse_quiet(_text(value))
    return _text(value)


def _weekly(value: object) -> str:
    from andon.settings.moments import last_weekly  # only if digests are sent

    if text := _text(value):
        last_weekly(text, 1e9, lambda at: 0.0)
    return text


def _store(value: object) -> str:
    from andon.settings.store_url import parse_store_url  # only if a store is set

    text = value if isinstance(value, str) else _text(value)
    if text:
        parse_store_url(text)
    return text


def _without_password(value: object) -> object:
    from andon.settings.store_url import redacted

    return redacted(value) if isinstance(value, str) and value else value


def _any_names(value: object) -> tuple[str, ...]:
    return () if value in ((), []) else _names(value)


def _origins(value: object) -> tuple[str, ...]:
    from andon.access.gate import is_origin  # only if origins are set

    found = _any_names(value)
    if not all(map(is_origin, found)):
        raise ValueError
    return found


TEXT = ValueKind("text", _text)
STORE = ValueKind('a URL such as "sqlite:///data/history.db"', _store, _without_password)
FOLDER = ValueKind("an absolute path", _folder)
WORD = ValueKind("letters, digits and _, not starting with a digit", _word)
NAMES = ValueKind('a list of names such as ["nvidia"]', _names)
LABELS = ValueKind('a list such as ["quiet:3"]', _names)
ROLES = ValueKind('a list such as ["gpu-admins:admin", "*:read"]', _names)
SCRIPTS = ValueKind('a list such as ["lost:2@10"]', _names)
WHOLE = ValueKind("a whole number", _whole)
YES_OR_NO = ValueKind("true or false", _yes_or_no)
NUMBER = ValueKind("a number", _number)
SECONDS = ValueKind("a number of seconds such as 1 or 500ms", _seconds)
NUMBER_OR_OFF = ValueKind('a number, or "off"', _or_off(_number))
SECONDS_OR_OFF = ValueKind('a number of seconds such as 300 or 5m, or "off"', _or_off(_seconds))
ORIGINS = ValueKind('a list of exact origins such as ["http://localhost:3000"]', _origins)
QUIET = ValueKind('a time range such as "22:00-07:00"', _quiet)
WEEKLY = ValueKind('a day of the week and a time such as "Mon 08:00"', _weekly)
RULES = ValueKind('a list of rules such as ["fan"]', _any_names)
