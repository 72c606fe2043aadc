"""What surrounds each call of a function, such as a lease or a run; a generator's lasts from its
first item to its last."""

import asyncio
import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, ParamSpec, Protocol, Self, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


class CallScope(AbstractContextManager[Any], AbstractAsyncContextManager[Any], Protocol):
    """What surrounds one call."""

    def __enter__(self) -> Self: ...
    async def __aenter__(self) -> Self: ...
    def keywords(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Returns the keywords that the function gets."""

    def step(self) -> AbstractContextManager[None]:
        """Returns what surrounds the call, or each step of a generator: not what its caller does
        between two items."""


class BlockingScope:
    """A scope whose begin and end may block: around a coroutine they happen in a thread."""

    def __init__(
        self,
        begin: Callable[[], object],
        end: Callable[[BaseException | None], None],
        step: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.begin, self.end, self.step = begin, end, step

    def keywords(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return kwargs

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        self.end(error)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.begin)
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, at: object) -> None:
        if isinstance(error, GeneratorExit):  # a generator that is closed can wait for nothing
            self.end(error)
        else:
            await asyncio.to_thread(self.end, error)


def is_plain(function: Callable[..., Any]) -> bool:
    """Whether a call of the function does all of its work before it returns."""
    return not (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )


def around(function: Callable[P, R], make: Callable[[], CallScope]) -> Callable[P, R]:
    """Returns the function with a new scope around each call."""

    def called(*args: Any, **kwargs: Any) -> Any:
        with make() as one, one.step():
            return function(*args, **one.keywords(args, kwargs))

    async def waited(*args: Any, **kwargs: Any) -> Any:
        async with make() as one:
            with one.step():
                return await function(*args, **one.keywords(args, kwargs))  # type: ignore[misc]

    def generated(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with make() as one:
            items = function(*args, **one.keywords(args, kwargs))
            return (yield from _steps(one, cast("Generator[Any, Any, Any]", items)))

    wrapper: Callable[..., Any] = called
    if inspect.iscoroutinefunction(function):
        wrapper = waited
    elif inspect.isasyncgenfunction(function):
        wrapper = _async_generator(function, make)
    elif inspect.isgeneratorfunction(function):
        wrapper = generated
    return functools.wraps(function)(wrapper)


def _steps(one: CallScope, items: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Yields as `yield from` does, with every step inside the scope."""
    step: Callable[[], Any] = functools.partial(next, items)
    while True:
        try:
            with one.step():
                item = step()
        except StopIteration as end:
            return end.value
        try:
            step = functools.partial(items.send, (yield item))
        except GeneratorExit:
            with one.step():
                items.close()
            raise
        except BaseException as error:  # noqa: BLE001 - the function may catch it
            step = functools.partial(items.throw, error)


def _async_generator(
    function: Callable[..., AsyncGenerator[Any, Any]], make: Callable[[], CallScope]
) -> Callable[..., AsyncGenerator[Any, Any]]:
    async def given(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        async with make() as one:
            items = function(*args, **one.keywords(args, kwargs))
            step: Callable[[], Any] = functools.partial(anext, items)
            while True:
                try:
                    with one.step():
                        item = await step()
                except StopAsyncIteration:
                    return
                try:
                    step = functools.partial(items.asend, (yield item))
                except GeneratorExit:
                    with one.step():
                        await items.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - the function may catch it
                    step = functools.partial(items.athrow, error)

    return given
