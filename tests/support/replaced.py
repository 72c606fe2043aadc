"""For what a test replaces a part of andon or of Python: to reach a limit in a moment, to have a
call fail, or to see which calls are made."""

import importlib
from collections.abc import Callable
from typing import Any

import pytest


def constants(monkeypatch: pytest.MonkeyPatch, module: object, **values: object) -> None:
    """Gives constants of a module, which may be named, other values: limits and times that a test
    reaches in a moment, and paths in a folder of its own."""
    found = importlib.import_module(module) if isinstance(module, str) else module
    for name, value in values.items():
        assert name.lstrip("_").isupper(), f"{name} is no constant"
        monkeypatch.setattr(found, name, value)


def fails(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, error: BaseException) -> None:
    """Lets every call raise this, as where a disk is full or a system call is refused."""

    def failing(*_: object, **_named: object) -> None:
        raise error

    monkeypatch.setattr(owner, name, failing)


def calls_of(
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    noted: Callable[..., Any] = lambda *arguments, **_: arguments,
) -> list[Any]:
    """Returns what is noted of each call from now on: its arguments, unless told otherwise. The
    calls are made as before."""
    found: list[Any] = []
    real = getattr(owner, name)

    def called(*arguments: Any, **named: Any) -> Any:
        found.append(noted(*arguments, **named))
        return real(*arguments, **named)

    monkeypatch.setattr(owner, name, called)
    return found
