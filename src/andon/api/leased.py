"""`@andon.lease(...)`: a function that gets a lease for each call, and how it learns its
devices.

A parameter named `held` gets the lease. An ordinary function in the main thread also runs with
the variables of `andon run`. The environment belongs to the whole process, so it is not changed
for threads, coroutines and generators, which run at the same time as other code.
"""

import inspect
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    contextmanager,
    nullcontext,
)
from typing import Any, Protocol, Self

from andon.api.around import P, R, around, is_plain

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
    passing = _LeasePasser(function, known if takes else None)
    made = around(function, lambda: _LeaseOfCall(request(), passing))
    if known is not None and takes:  # callers do not give it
        shown = [p for name, p in known.parameters.items() if name != PARAMETER]
        made.__dict__["__signature__"] = known.replace(parameters=shown)
    return made


class _LeasePasser:
    """How a function learns its devices: by a parameter, else by its environment."""

    def __init__(self, function: Callable[..., Any], signature: inspect.Signature | None) -> None:
        self._name = getattr(function, "__qualname__", repr(function))
        self.signature, self._warned = signature, False
        self._plain = is_plain(function)

    def environment(self, held: LeaseInForce) -> AbstractContextManager[None]:
        """Sets the variables of a call where that is possible; warns once if it is not, and the
        call cannot know its devices."""
        if self._plain and threading.current_thread() is threading.main_thread():
            return ENVIRONMENT.of(held.environment)
        if self.signature is None and not self._warned:
            self._warned = True
            log.warning(
                "%s has a lease and cannot know its devices: the environment is not changed for "
                "threads, coroutines and generators; give it a parameter `%s`",
                self._name,
                PARAMETER,
            )
        return nullcontext()


class _LeaseOfCall:
    """The lease of one call."""

    def __init__(self, requested: Requested, passing: _LeasePasser) -> None:
        self._requested, self._passing = requested, passing

    def keywords(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Returns the keywords with the lease; a caller's own `held` stays."""
        found = self._passing.signature
        if found is None or PARAMETER in found.bind_partial(*args, **kwargs).arguments:
            return kwargs
        return {**kwargs, PARAMETER: self._held}

    def step(self) -> AbstractContextManager[None]:
        return self._passing.environment(self._held)

    def __enter__(self) -> Self:
        self._held = self._requested.__enter__()
        return self

    def __exit__(self, *ended: Any) -> None:
        self._requested.__exit__(*ended)

    async def __aenter__(self) -> Self:
        self._held = await self._requested.__aenter__()
        return self

    async def __aexit__(self, *ended: Any) -> None:
        await self._requested.__aexit__(*ended)


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None  # a builtin
