"""`@andon.lease(...)`: a function that gets a lease for each call, and how it learns its
devices.

A parameter named `held` gets the lease. An ordinary function in the main thread also runs with
the variables of `andon run`. The environment belongs to the whole process, so it is not changed
for threads, coroutines and generators, which run at the same time as other code.
"""

import functools
import inspect
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    aclosing,
    contextmanager,
)
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

PARAMETER = "held"

log = logging.getLogger("andon")


class LeaseInForce(Protocol):
    """What a call needs of its lease."""

    @property
    def environment(self) -> Mapping[str, str]: ...


class Requested(
    AbstractContextManager[LeaseInForce], AbstractAsyncContextManager[LeaseInForce], Protocol
):
    """One lease, taken and released."""


class CallEnvironment:
    """The variables of the leased calls in the main thread, and what they were before."""

    def __init__(self) -> None:
        self._before: list[dict[str, str | None]] = []

    @contextmanager
    def of(self, variables: Mapping[str, str]) -> Iterator[None]:
        """Sets the variables inside the block; nested blocks end before those around them."""
        before = {name: os.environ.get(name) for name in variables}
        self._before.append(before)
        os.environ.update(variables)
        try:
            yield
        finally:
            self._before.pop()
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def outside(self) -> dict[str, str] | None:
        """The environment without what leased calls have set; None if none has set anything."""
        if not self._before:
            return None
        found = dict(os.environ)
        for before in reversed(self._before):
            for name, value in before.items():
                if value is None:
                    found.pop(name, None)
                else:
                    found[name] = value
        return found


ENVIRONMENT = CallEnvironment()


def leased(function: Callable[P, R], request: Callable[[], Requested]) -> Callable[P, R]:
    """Returns the function with a lease for each call; a generator's lease lasts from its first
    item to its last."""
    known = _signature(function)
    takes = known is not None and PARAMETER in known.parameters
    made = _wrapper(function)(function, request, _LeasePasser(function, known if takes else None))
    if known is not None and takes:  # callers do not give it
        shown = [p for name, p in known.parameters.items() if name != PARAMETER]
        made.__dict__["__signature__"] = known.replace(parameters=shown)
    return made


class _LeasePasser:
    """Passes the lease to a function that has a parameter for it."""

    def __init__(self, function: Callable[..., Any], signature: inspect.Signature | None) -> None:
        self._name = getattr(function, "__qualname__", repr(function))
        self._signature, self._warned = signature, False

    def keywords(
        self, held: LeaseInForce, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        """The keywords of the call; a caller's own `held` stays."""
        found = self._signature
        if found is None or PARAMETER in found.bind_partial(*args, **kwargs).arguments:
            return kwargs
        return {**kwargs, PARAMETER: held}

    def warn(self) -> None:
        """Warns once that such a call cannot know its devices."""
        if self._signature is None and not self._warned:
            self._warned = True
            log.warning(
                "%s has a lease and cannot know its devices: the environment is not changed for "
                "threads, coroutines and generators; give it a parameter `%s`",
                self._name,
                PARAMETER,
            )


Wrapper = Callable[[Callable[..., Any], Callable[[], Requested], _LeasePasser], Callable[..., Any]]


def _wrapper(function: Callable[..., Any]) -> Wrapper:
    if inspect.iscoroutinefunction(function):
        return _coroutine
    if inspect.isasyncgenfunction(function):
        return _async_generator
    return _generator if inspect.isgeneratorfunction(function) else _plain


def _plain(
    function: Callable[..., Any], request: Callable[[], Requested], passing: _LeasePasser
) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with request() as held:
            keywords = passing.keywords(held, args, kwargs)
            if threading.current_thread() is not threading.main_thread():
                passing.warn()
                return function(*args, **keywords)
            with ENVIRONMENT.of(held.environment):
                return function(*args, **keywords)

    return called


def _coroutine(
    function: Callable[..., Any], request: Callable[[], Requested], passing: _LeasePasser
) -> Callable[..., Any]:
    @functools.wraps(function)
    async def waited(*args: Any, **kwargs: Any) -> Any:
        passing.warn()
        async with request() as held:
            return await function(*args, **passing.keywords(held, args, kwargs))

    return waited


def _generator(
    function: Callable[..., Any], request: Callable[[], Requested], passing: _LeasePasser
) -> Callable[..., Any]:
    @functools.wraps(function)
    def generated(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        passing.warn()
        with request() as held:
            return (yield from function(*args, **passing.keywords(held, args, kwargs)))

    return generated


def _async_generator(
    function: Callable[..., Any], request: Callable[[], Requested], passing: _LeasePasser
) -> Callable[..., Any]:
    @functools.wraps(function)
    async def generated(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        passing.warn()
        async with request() as held:
            made = function(*args, **passing.keywords(held, args, kwargs))
            async with aclosing(made) as items:
                async for item in items:
                    yield item

    return generated


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None  # a builtin
