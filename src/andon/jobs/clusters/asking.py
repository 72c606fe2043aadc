"""Asks a cluster with a time limit: it may hang whatever it promises."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from andon.errors import AndonError, Unavailable
from andon.model.codec import Wrong
from andon.units import human_seconds

T = TypeVar("T")
GRACE_SECONDS = 1.0
"""Beyond a cluster's own time limit, which should end a call first."""


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

    def ask(name: str, call: Callable[[], T]) -> None:
        try:
            found[name] = call()
        except Exception as exc:  # noqa: BLE001 - an adapter may be another package's
            found[name] = as_ours(exc)

    threads = [
        threading.Thread(target=ask, args=pair, name=f"ask {pair[0]}", daemon=True)
        for pair in calls.items()
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds + GRACE_SECONDS
    meanwhile()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
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
