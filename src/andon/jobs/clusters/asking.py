"""Calls a cluster with a time limit, because its client may hang despite its own. Time that the
call spends on anything but the cluster does not count."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from andon.errors import AndonError, Unavailable
from andon.model.codec import Wrong
from andon.units import human_seconds

T = TypeVar("T")
GRACE_SECONDS, TICK_SECONDS = 1.0, 0.1
"""Beyond a cluster's own time limit, which should end a call first."""
AT_ONCE = 64
"""Hosts of a large group are asked so many at a time; each has a process of ssh."""
_call = threading.local()


class UncountedTime:
    """The time that a call has spent on anything but the cluster; infinite while it does so."""

    seconds = 0.0

    def of_this_thread(self) -> None:
        _call.uncounted = self


@contextmanager
def uncounted() -> Iterator[None]:
    """Excludes the time spent in this context from the time limit of this thread's call."""
    spent: UncountedTime = getattr(_call, "uncounted", UncountedTime())
    before, began, spent.seconds = spent.seconds, time.monotonic(), float("inf")
    try:
        yield
    finally:
        spent.seconds = before + time.monotonic() - began


def within(seconds: float, name: str, call: Callable[[], T]) -> T:
    """Returns what the call returns; raises Unavailable if it takes longer than the cluster's
    limit. The thread of the call is then abandoned."""
    (found,) = all_within(seconds, {name: call}).values()
    if isinstance(found, AndonError):
        raise found
    return found


def all_within(
    seconds: float,
    calls: Mapping[str, Callable[[], T]],
    meanwhile: Callable[[], object] = lambda: None,
) -> dict[str, T | AndonError]:
    """Makes all calls at the same time; returns for each what it returned or raised."""
    found: dict[str, Any] = {}
    others, room = {name: UncountedTime() for name in calls}, threading.Semaphore(AT_ONCE)

    def ask(name: str, call: Callable[[], T]) -> None:
        others[name].of_this_thread()
        try:
            with room:
                found[name] = call()
        except Exception as exc:  # noqa: BLE001 - an adapter may be another package's
            found[name] = as_ours(exc)

    threads = {
        pair[0]: threading.Thread(target=ask, args=pair, name=f"ask {pair[0]}", daemon=True)
        for pair in calls.items()
    }
    for thread in threads.values():
        thread.start()
    until = time.monotonic() + seconds + GRACE_SECONDS
    meanwhile()
    for name, thread in threads.items():
        while thread.is_alive() and (left := until + others[name].seconds - time.monotonic()) > 0:
            thread.join(min(left, TICK_SECONDS))
    late = Unavailable(
        f"no answer within {human_seconds(seconds)}", hint="its timeout is in [clusters.NAME]"
    )
    return {name: found.get(name, late) for name in calls}


def as_ours(exc: Exception) -> AndonError:
    """Returns an unexpected error of an adapter as one that can be shown."""
    if isinstance(exc, AndonError):
        return exc
    reason = f"unexpected: {exc}" if isinstance(exc, Wrong) else f"{type(exc).__name__}: {exc}"
    return Unavailable(reason[:200], hint="this is a mistake in the kind of cluster: report it")
