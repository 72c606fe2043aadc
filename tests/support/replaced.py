"""For what a test replaces a part of andon or of Python: to reach a limit in a moment, to have a
call fail or answer as elsewhere, or to see which calls are made."""

import importlib
from collections.abc import Callable
from typing import Any

import pytest


def constants(monkeypatch: pytest.MonkeyPatch, module: object, **values: object) -> None:
    """Gives constants other values: limits and times that a test reaches in a moment, and paths in
    a folder of its own."""
    found = _owner(module)
    for name, value in values.items():
        assert name.lstrip("_").isupper(), f"{name} is no constant"
        monkeypatch.setattr(found, name, value)


def fails(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, error: BaseException) -> None:
    """Lets every call raise this, as where a disk is full or a system call is refused."""

    def failing(*_: object, **_named: object) -> None:
        raise error

    monkeypatch.setattr(_owner(owner), name, failing)


def answers(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, answer: object) -> None:
    """Lets every call return this, as on another machine or for another user."""
    monkeypatch.setattr(_owner(owner), name, lambda *_, **__: answer)


def calls_of(
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    noted: Callable[..., Any] = lambda *arguments, **_: arguments,
) -> list[Any]:
    """Returns what is noted of each call from now on: its arguments, unless told otherwise. The
    calls are made as before."""
    found: list[Any] = []
    owner = _owner(owner)
    real = getattr(owner, name)

    def called(*arguments: Any, **named: Any) -> Any:
        found.append(noted(*arguments, **named))
        return real(*arguments, **named)

    monkeypatch.setattr(owner, name, called)
    return found


def _owner(given: object) -> object:
    """Returns a module that is given by its name, and anything else as it is."""
    return importlib.import_module(given) if isinstance(given, str) else given
