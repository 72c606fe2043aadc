"""A session of the sampler with a thread of its own that takes the snapshots."""

import threading
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Self

from andon.failures.log import FailureLog
from andon.model.device import Snapshot
from andon.sampling.bus import Subscription


class SnapshotDelivery(StrEnum):
    """Which snapshots are handled, and when the thread wakes up."""

    EACH = "each"  # as it comes
    NEWEST = "newest"  # as it comes; what was queued meanwhile is left out
    BATCH = "batch"  # all of them after a pause: waking up for each costs more


def _nothing() -> None:
    """Does nothing: for a follower without a handler at that point."""


class Follower:
    """Handles snapshots until it is closed. A handler that fails is called again with the next one.

    `begin` and `end` run first and last in the same thread. `idle` runs when no snapshot arrived
    for `idle_seconds`, and after each batch.
    """

    def __init__(
        self,
        session: Subscription,
        handle: Callable[[Snapshot], object],
        name: str,
        failures: FailureLog,
        *,
        taking: SnapshotDelivery = SnapshotDelivery.EACH,
        idle_seconds: Callable[[], float | None] = lambda: None,
        idle: Callable[[], object] = _nothing,
        begin: Callable[[], object] = _nothing,
        end: Callable[[], object] = _nothing,
    ) -> None:
        self.session, self._handle, self._failures = session, handle, failures
        self._taking, self._idle_seconds, self._idle = taking, idle_seconds, idle
        self._begin, self._end = begin, end
        self._over = threading.Event()
        session.on_close(self._over.set)
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    @property
    def runs(self) -> bool:
        return self._thread.is_alive()

    @property
    def failure(self) -> Exception | None:
        """Returns the exception of the last call; None if it succeeded."""
        return self._failure

    def close(self, seconds: float | None = None) -> bool:
        """Ends the session; what is queued is still handled. Waits at most `seconds`, and returns
        whether the thread has ended. May be called twice, and by the handler itself."""
        self.session.close()
        if self.runs and self._thread is not threading.current_thread():
            self._thread.join(seconds)
        return not self.runs

    def run(self) -> None:
        """Runs the thread until the session is closed and its queue is empty."""
        self._safely(self._begin)
        while not self.session.closed:
            taken = self._next()
            for snapshot in taken:
                self._safely(partial(self._handle, snapshot))
            if self._taking is SnapshotDelivery.BATCH or not (taken or self.session.closed):
                self._safely(self._idle)
        self._safely(self._end)

    def _next(self) -> list[Snapshot]:
        """Waits for a snapshot, or for the end of the pause; empty if none came."""
        if self._taking is SnapshotDelivery.BATCH:
            self._over.wait(self._idle_seconds())
            return self._queued()
        first = self.session.get(self._idle_seconds())
        if first is None:
            return []
        return [first] if self._taking is SnapshotDelivery.EACH else [first, *self._queued()][-1:]

    def _queued(self) -> list[Snapshot]:
        return list(iter(lambda: self.session.get(0), None))

    def _safely(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as exc:  # noqa: BLE001 - logged and shown, and the next one is handled
            self._failure = exc
            self._failures.add(exc)
        else:
            self._failure = None
