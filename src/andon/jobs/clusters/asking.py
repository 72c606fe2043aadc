"""Asks a cluster with a time limit: it may hang whatever it promises. What a call asks of others
meanwhile does not count."""

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
_call = threading.local()


class Elsewhere:
    """How long a call has asked others than the cluster; without end while it does."""

    seconds = 0.0

    def of_this_thread(self) -> None:
        _call.elsewhere = self


@contextmanager
def elsewhere() -> Iterator[None]:
    """What is asked meanwhile does not count against the limit of the cluster that is asked in this
    thread."""
    noted: Elsewhere = getattr(_call, "elsewhere", Elsewhere())
    before, began, noted.seconds = noted.seconds, time.monotonic(), float("inf")
    try:
        yield
    finally:
        noted.seconds = before + time.monotonic() - began


def within(seconds: float, name: str, call: Callable[[], T]) -> T:
    """Returns what the call returns; raises Unavailable if it takes longer than the cluster's
    limit. Its thread is then left behind."""
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
    others = {name: Elsewhere() for name in calls}

    def ask(name: str, call: Callable[[], T]) -> None:
        others[name].of_this_thread()
        try:
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
