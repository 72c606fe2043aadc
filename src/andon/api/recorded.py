"""`@andon.recorded`: each call is a run; for a generator, from its first item to its end.

What is recorded inside a generator is part of its run, and what its caller does between two items
is not: a caller that leaves early closes it, and the run is `stopped`.
"""

import os
from collections.abc import Callable, Collection, Mapping
from typing import Any, overload

from andon.api.around import BlockingScope, P, R, around
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
        return around(name, lambda: _scope(run(name.__name__)))
    return lambda function: around(
        function, lambda: _scope(run(name or function.__name__, *given, **options))
    )


def _scope(one: RecordedRun) -> BlockingScope:
    return BlockingScope(one.start, one.end, one.going_on)
