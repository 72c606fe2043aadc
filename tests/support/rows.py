"""A table of many rows as one test, which names every row that fails.

`pytest.mark.parametrize` makes a test of each row, and a test costs a millisecond before it does
anything. `@rows` has its arguments, and is for tests that take nothing but what the table gives.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

_LONGEST = 300  # characters of a row, and of what went wrong with it

Test = Callable[..., None]


def rows(
    names: str | Sequence[str],
    table: Iterable[Any],
    *,
    ids: Iterable[object] | Callable[[Any], str] | None = None,
) -> Callable[[Test], Test]:
    """The test is called with each row in turn; on top of each other, with each pair of rows."""
    named = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    single = isinstance(names, str) and "," not in names
    given = [(value,) if single else tuple(value) for value in table]
    assert given, f"the table of {', '.join(named)} is empty"
    assert all(len(row) == len(named) for row in given), f"each row has {', '.join(named)}"
    told = _told(given, ids)

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def each(**others: Any) -> None:
            failed: list[tuple[str, BaseException]] = []
            for row, words in zip(given, told, strict=True):
                try:
                    test(**dict(zip(named, row, strict=True)), **others)
                except (Exception, pytest.fail.Exception) as exc:  # noqa: BLE001 (all are named)
                    failed.append((words, exc))
            if failed:
                lines = [f"{words[:_LONGEST]}: {_reason(exc)}" for words, exc in failed]
                count = f"{len(failed)} of {len(given)} rows failed"
                raise AssertionError("\n".join((count, *lines))) from failed[0][1]

        signature = inspect.signature(test)
        left = [value for name, value in signature.parameters.items() if name not in named]
        each.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return each

    return decorate


def _told(
    given: Sequence[tuple[Any, ...]], ids: Iterable[object] | Callable[[Any], str] | None
) -> list[str]:
    if ids is None:
        return [", ".join(map(repr, row)) for row in given]
    if callable(ids):
        return [", ".join(str(ids(value)) for value in row) for row in given]
    return list(map(str, ids))


def _reason(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {exc}"[: 4 * _LONGEST]
