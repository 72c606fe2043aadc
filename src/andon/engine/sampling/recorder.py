"""Writes every snapshot to the store, and buffers a bounded number when the store is down."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from andon.core.history.backlog import UPKEEP_SECONDS, Backlog, RecorderHealth
from andon.core.history.intervals import OpenIntervals
from andon.core.history.series import facts_of, tick_of
from andon.core.history.tiers import Retention
from andon.engine.sampling.bus import Subscription
from andon.engine.sampling.maintainer import Maintainer
from andon.errors import AndonError, Unavailable
from andon.model.device import Snapshot
from andon.ports import Store

log = logging.getLogger("andon.recorder")

LEAVING_SECONDS = 5.0


class Recorder:
    """A thread between a session of the sampler and a store; neither waits for it."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        subscription: Subscription,
        flush_seconds: float = 5.0,
        retention: Retention | None = None,
    ) -> None:
        self._open_store, self._subscription = open_store, subscription
        self._flush_seconds, self._retention = flush_seconds, retention or Retention()
        self._lock = threading.Lock()
        self._store: Store | None = None
        self._backlog, self._uses = Backlog(tried=time.monotonic()), OpenIntervals()
        self._trouble: AndonError | None = None
        self._since: float | None = None
        self._flushed: float | None = None
        self._kept = time.monotonic()
        self._ended = threading.Event()
        subscription.on_close(self._ended.set)
        self._thread = threading.Thread(target=self._loop, name="recorder", daemon=True)
        self._thread.start()

    def health(self) -> RecorderHealth:
        """Whether readings are being written, and if not, why and since when."""
        with self._lock:
            backlog, trouble = self._backlog, self._trouble
            return RecorderHealth(
                ok=trouble is None,
                reason=trouble.reason if trouble else None,
                hint=trouble.hint if trouble else None,
                since=self._since,
                buffered_snapshots=len(backlog.ticks),
                dropped_snapshots=backlog.dropped + self._subscription.dropped,
                written_snapshots=backlog.written,
                flushed=self._flushed,
            )

    @property
    def store(self) -> Store:
        """The open store; raises Unavailable with the reason while there is none."""
        store, trouble = self._store, self._trouble
        if store is not None:
            return store
        reason = trouble.reason if trouble else "the history is not open yet"
        raise Unavailable(reason, hint=trouble.hint if trouble else "try again")

    def close(self) -> None:
        """Write what is left, and close the store."""
        self._subscription.close()
        self._thread.join(LEAVING_SECONDS)
        store, self._store = self._store, None
        if store is not None:
            with suppress(AndonError):
                store.close()

    def _loop(self) -> None:
        while not self._ended.is_set():
            try:
                self._turn()
            except Exception as exc:
                log.exception("recording failed; retrying")
                self._failed(Unavailable(f"recording failed: {exc}"))
        self._finish()

    def _turn(self) -> None:
        self._open_if_due()
        due = self._backlog.due(self._flush_seconds)
        # Take several snapshots at once when a write is due: waking up for each costs more.
        rest = min(due - time.monotonic(), self._subscription.poll_within_seconds)
        self._ended.wait(max(0.0, rest))
        self._take_all()
        if time.monotonic() >= due:
            self._flush()

    def _finish(self) -> None:
        self._take_all()
        self._flush()

    def _take_all(self) -> None:
        while (snapshot := self._subscription.get(0)) is not None:
            self._take(snapshot)

    def _take(self, snapshot: Snapshot) -> None:
        self._uses, changed = self._uses.follow(snapshot)
        with self._lock:
            self._backlog = self._backlog.add(tick_of(snapshot), changed, facts_of(snapshot))

    def _open_if_due(self) -> None:
        """Open at once at the start, so that history can be queried before the first flush."""
        if self._store is None and not self._backlog.failures:
            self._try(self._opened)

    def _flush(self) -> None:
        if self._try(self._write) and time.monotonic() - self._kept >= UPKEEP_SECONDS:
            self._try(self._maintain)

    def _opened(self) -> Store:
        if self._store is None:
            self._store = self._open_store()
        return self._store

    def _write(self) -> None:
        store = self._opened()
        self._uses, changed = self._uses.settle()
        with self._lock:
            backlog = self._backlog = self._backlog.lengthened(changed)
        if not backlog.ticks:
            self._backlog = backlog.flushed(time.monotonic())
            return  # the store was not used
        store.write(backlog.ticks, tuple(backlog.uses.values()), backlog.devices)
        with self._lock:
            if self._trouble is not None:
                log.warning("history is being written again")
            self._backlog = backlog.flushed(time.monotonic())
            self._trouble, self._since, self._flushed = None, None, time.time()

    def _maintain(self) -> None:
        """Do some maintenance; if more is due, the next flush continues."""
        if Maintainer(self._opened(), self._retention).step(time.time()).idle:
            self._kept = time.monotonic()

    def _try(self, act: Callable[[], object]) -> bool:
        try:
            act()
        except AndonError as exc:
            self._failed(exc)
            return False
        return True

    def _failed(self, trouble: AndonError) -> None:
        with self._lock:
            if self._trouble is None or self._trouble.reason != trouble.reason:
                log.warning("history cannot be written: %s", trouble.reason)
            self._since = self._since or time.time()
            self._trouble, self._backlog = trouble, self._backlog.failed(time.monotonic())
