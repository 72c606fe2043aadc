"""`@andon.recorded`: each call is a run; for a generator, from its first item to its end.

What is recorded inside a generator is part of its run, and what its caller does between two items
is not.
"""

import asyncio
import functools
import inspect
import os
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Mapping
from typing import Any, ParamSpec, TypeVar, overload

from andon.api.run import RecordedRun, run

P = ParamSpec("P")
R = TypeVar("R")
NewRun = Callable[[], RecordedRun]


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
        return _decorated(name, lambda: run(name.__name__))
    return lambda function: _decorated(
        function, lambda: run(name or function.__name__, *given, **options)
    )


def _decorated(function: Callable[..., Any], make: NewRun) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):
        return _coroutine(function, make)
    if inspect.isasyncgenfunction(function):
        return _async_generator(function, make)
    return (
        _generator(function, make)
        if inspect.isgeneratorfunction(function)
        else _plain(function, make)
    )


def _plain(function: Callable[..., Any], make: NewRun) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with make():
            return function(*args, **kwargs)

    return called


def _coroutine(function: Callable[..., Any], make: NewRun) -> Callable[..., Any]:
    @functools.wraps(function)
    async def waited(*args: Any, **kwargs: Any) -> Any:
        async with make():
            return await function(*args, **kwargs)

    return waited


def _generator(function: Callable[..., Any], make: NewRun) -> Callable[..., Any]:
    """Wraps a generator; a caller that leaves early closes it, and the run is `stopped`."""

    @functools.wraps(function)
    def generated(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        one = make()
        one.start()
        try:
            result = yield from _steps(one, function(*args, **kwargs))
        except BaseException as error:
            one.end(error)
            raise
        one.end()
        return result

    return generated


def _steps(one: RecordedRun, items: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Yields as `yield from` does, with every step inside the run."""
    step: Callable[[], Any] = functools.partial(next, items)
    while True:
        try:
            with one.going_on():
                item = step()
        except StopIteration as end:
            return end.value
        try:
            step = functools.partial(items.send, (yield item))
        except GeneratorExit:
            with one.going_on():
                items.close()
            raise
        except BaseException as error:  # noqa: BLE001 - the function may catch it
            step = functools.partial(items.throw, error)


def _async_generator(function: Callable[..., Any], make: NewRun) -> Callable[..., Any]:
    @functools.wraps(function)
    async def generated(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        one = make()
        await asyncio.to_thread(one.start)
        items: AsyncGenerator[Any, Any] = function(*args, **kwargs)
        step: Callable[[], Any] = functools.partial(anext, items)
        try:
            while True:
                try:
                    with one.going_on():
                        item = await step()
                except StopAsyncIteration:
                    break
                try:
                    step = functools.partial(items.asend, (yield item))
                except GeneratorExit:
                    with one.going_on():
                        await items.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - the function may catch it
                    step = functools.partial(items.athrow, error)
        except BaseException as error:
            one.end(error)
            raise
        await asyncio.to_thread(one.end)

    return generated
