"""What Python itself reports of system calls as they are made: nothing is replaced to see them."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_noting: dict[str, list[list[tuple[Any, ...]]]] = {}
_forbidden: set[str] = set()
_before: dict[str, Callable[[], object]] = {}
_is_heard: list[bool] = []


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    for found in _noting.get(event, ()):
        found.append(arguments)
    if (act := _before.pop(event, None)) is not None:
        act()
    if event in _forbidden:
        raise AssertionError(f"{event}{arguments} was called")


def _listen() -> None:
    if not _is_heard:
        sys.addaudithook(_hear)  # it can never be removed: one for all tests
        _is_heard.append(True)


@contextmanager
def noticed(event: str) -> Iterator[list[tuple[Any, ...]]]:
    """The arguments of each call meanwhile, in any thread: `open`, `os.listdir` and whatever
    else Python's table of audit events names."""
    _listen()
    found: list[tuple[Any, ...]] = []
    _noting.setdefault(event, []).append(found)
    try:
        yield found
    finally:
        _noting[event] = [one for one in _noting[event] if one is not found]


@contextmanager
def forbidden(*events: str) -> Iterator[None]:
    """No such call is let through, because it would change this machine; it fails the test."""
    _listen()
    _forbidden.update(events)
    try:
        yield
    finally:
        _forbidden.difference_update(events)


@contextmanager
def before(event: str, act: Callable[[], object]) -> Iterator[None]:
    """What another process may do at that moment is done just before the first such call."""
    _listen()
    _before[event] = act
    yield
    assert event not in _before, f"there was no {event}"
