"""Imports msgspec and pathlib with only those of their parts that andon uses, for a process that
somebody waits for: the others take longer to import than a server takes to answer.

While they are imported, an empty module stands in for each part that is not used, and `None` for
`typing_extensions`, of which the standard library has everything that msgspec needs. Afterwards a
part is imported by whoever first asks for it, as if it had been there all the time.
"""

import os
import sys
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from types import ModuleType
from typing import Any

_datetime: ModuleType | None = None
with suppress(ImportError):
    _datetime = import_module("_datetime")

_PARTS = ("inspect", "msgpack", "toml", "yaml")
_SCHEMAS = "msgspec._json_schema"  # two functions of msgspec.json are defined there
_SCHEMA_NAMES = ("schema", "schema_components")


Contents = Mapping[str, object] | None


def _module(name: str, contents: Contents) -> ModuleType | None:
    if contents is None:
        return None
    module = ModuleType(name)
    vars(module).update(contents)
    return module


@contextmanager
def stand_ins(wanted: Mapping[str, Contents]) -> Iterator[None]:
    """Puts modules with these contents in place of those that are not imported yet; for None an
    import of it fails."""
    used = [name for name in wanted if name not in sys.modules]
    for name in used:
        sys.modules[name] = _module(name, wanted[name])  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in used:
            del sys.modules[name]


def _find_later(module: ModuleType, places: Mapping[str, str]) -> None:
    """Makes a module import these names from these places, or parts of it, when they are used."""

    def found(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        place = import_module(places[name])
        value = place if places[name] == f"{module.__name__}.{name}" else getattr(place, name)
        setattr(module, name, value)
        return value

    for name in places:
        vars(module).pop(name, None)
    vars(module)["__getattr__"] = found


@contextmanager
def _unchecked_names() -> Iterator[None]:
    """msgspec tries a class of typing once, which loads the types of all syntax trees."""
    usual = typing.ForwardRef
    typing.ForwardRef = lambda *_, **__: None  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        typing.ForwardRef = usual  # type: ignore[misc]


def _evaluate_quickly(utils: Any) -> None:
    """Makes msgspec evaluate an annotation that is text as Python does, without those types."""
    usual = utils._eval_type

    def evaluated(kind: Any, names: dict[str, Any], module: dict[str, Any]) -> Any:
        if isinstance(kind, str):
            kind = eval(kind, module, names)  # noqa: S307 - of a class, not of anyone's input
        return usual(kind, names, module)  # a name may still stand in quotes in it

    if callable(utils._forward_ref):
        utils._forward_ref, utils._eval_type = str, evaluated


def _import_msgspec() -> None:
    wanted: dict[str, Contents] = {f"msgspec.{part}": {} for part in _PARTS}
    wanted |= {_SCHEMAS: dict.fromkeys(_SCHEMA_NAMES), "typing_extensions": None}
    if _datetime is not None:  # before Python 3.12 a second one is loaded and dropped
        wanted["datetime"] = vars(_datetime)
    if sys.platform == "linux":  # its module uuid asks for nothing else
        wanted["platform"] = {"system": lambda: os.uname().sysname}
    with stand_ins(wanted), _unchecked_names():
        import msgspec
    _evaluate_quickly(msgspec._utils)
    _find_later(msgspec, {part: f"msgspec.{part}" for part in _PARTS})
    _find_later(msgspec.json, dict.fromkeys(_SCHEMA_NAMES, _SCHEMAS))


def _import_pathlib() -> None:
    """Until Python 3.13 it imports the parser of URLs, for `Path.as_uri` alone."""

    def quote_from_bytes(*given: Any) -> str:
        from urllib.parse import quote_from_bytes

        return quote_from_bytes(*given)

    with stand_ins({"urllib.parse": {"quote_from_bytes": quote_from_bytes}}):
        import pathlib  # noqa: F401


if "msgspec" not in sys.modules:
    with suppress(ImportError, AttributeError):  # a version that needs more is imported as it is
        _import_msgspec()
if "pathlib" not in sys.modules:
    _import_pathlib()

from msgspec.structs import replace as replace  # noqa: E402
