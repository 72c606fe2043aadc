"""The lines of a notifier in the configuration file, and the file with them at its end."""

import json
from collections.abc import Collection, Mapping
from typing import Any

TABLE = "[[alerts.notifier]]"


def notifier_lines(name: str, kind: str, values: Mapping[str, Any]) -> str:
    """The table of one notifier, as a person would write it."""
    pairs = {"name": name, "kind": kind, **values}
    return "\n".join([TABLE, *(f"{key} = {_toml(value)}" for key, value in pairs.items())]) + "\n"


def with_lines(text: str, lines: str) -> str:
    """The file with these lines at its end; everything before them stays as it is."""
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{lines}"


def free_name(wanted: str, taken: Collection[str]) -> str:
    """`slack`, or `slack-2` if that is taken."""
    names = (wanted if n == 1 else f"{wanted}-{n}" for n in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_text(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return str(value) if isinstance(value, int) else _text(str(value))


def _text(text: str) -> str:
    """A basic string of TOML has the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
