"""`@andon.recorded`: each call is a run; for a generator, from its first item to its end.

What is recorded inside a generator is part of its run, and what its caller does between two items
is not: a caller that leaves early closes it, and the run is `stopped`.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any, Self, overload

from andon.api.around import P, R, around
from andon.api.run import RecordedRun, run


@overload
def recorded(name: Callable[P, R]) -> Callable[P, R]: ...
@overload
def recorded(
    name: str | None = None,
    params: Mapping[str, Any] | None = None,
    tags: Collection[str] = (),
    devices: Collection[int | str] | None = None,
    telemetry_dir: str | os.PathLike[str] | None = None,
    quiet: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def recorded(name: Any = None, *given: Any, **options: Any) -> Any:
    """Each call of a function is a run: `@andon.recorded`, or with a name and the options of
    `andon.run`: `@andon.recorded("train", tags=["nightly"])`."""
    if callable(name):
        return around(name, lambda: _RunOfCall(run(name.__name__)))
    return lambda function: around(
        function, lambda: _RunOfCall(run(name or function.__name__, *given, **options))
    )


class _RunOfCall:
    """The run of one call; what it does in each step is part of it."""

    def __init__(self, one: RecordedRun) -> None:
        self._run = one

    def keywords(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return kwargs

    def step(self) -> AbstractContextManager[None]:
        return self._run.going_on()

    def __enter__(self) -> Self:
        self._run.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        self._run.end(error)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._run.start)
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, at: object) -> None:
        if isinstance(error, GeneratorExit):  # a generator that is closed can wait for nothing
            self._run.end(error)
        else:
            await asyncio.to_thread(self._run.end, error)
