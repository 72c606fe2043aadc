"""Writes every snapshot to the store, and buffers a bounded number when the store is down."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from andon.errors import AndonError, Unavailable
from andon.failures.log import FailureLog
from andon.failures.retrying import USUAL, Retrying, RetryTexts
from andon.failures.rules.backoff import BackOff
from andon.history.rules.backlog import SIZE_SECONDS, UPKEEP_SECONDS, Backlog, RecorderHealth
from andon.history.rules.intervals import OpenIntervals
from andon.history.rules.ledger import UseLedger
from andon.history.rules.series import facts_of, tick_of
from andon.history.rules.tiers import Maintenance, Retention, plan
from andon.model.device import Snapshot
from andon.ports import Store
from andon.sampling.bus import Subscription
from andon.sampling.follower import Follower, SnapshotDelivery

# Maintains any store: packs, rolls up, deletes and compacts what the plan says is due.

MOST_PACKED = 6  # windows per step, so that no one waits long for the store
MOST_ROLLED = 1


class Maintainer:
    """One store and its retention."""

    def __init__(self, store: Store, retention: Retention) -> None:
        self._store, self._retention = store, retention

    def step(self, at: float) -> Maintenance:
        """Does some of the work that is due. Call again until it is idle."""
        store, done = self._store, Maintenance()
        due = plan(at, store.contents(), self._retention)
        for begin in due.pack[:MOST_PACKED]:
            done = done.plus(store.pack(begin))
        for tier in due.shorten:
            done = done.plus(store.shorten(tier, int(at * 1000)))
        for window in due.roll[:MOST_ROLLED]:
            done = done.plus(store.roll(window))
        for tier, before in due.delete:
            done = done.plus(store.delete(tier, before))
        done = done.plus(store.forget(due.forget))
        return done.plus(Maintenance(freed_bytes=store.compact()))

    def finish(self, at: float) -> Maintenance:
        """Does everything that is due, and returns all free space to the system."""
        done = Maintenance()
        while not (step := self.step(at)).idle:
            done = done.plus(step)
        return done.plus(Maintenance(freed_bytes=self._store.compact(fully=True)))


log = logging.getLogger("andon.recorder")

LEAVING_SECONDS = 5.0
TEXTS = RetryTexts(
    lambda reason: f"history cannot be written: {reason}",
    lambda _lasted: "history is being written again",
)


class Recorder:
    """A thread between a session of the sampler and a store; neither waits for it."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        subscription: Subscription,
        flush_seconds: float = 5.0,
        retention: Retention | None = None,
        back_off: BackOff = USUAL,
        see: Callable[[Snapshot], None] = lambda _: None,
    ) -> None:
        """`see` is given every snapshot, before it is written."""
        self._see = see
        self._open_store, self._flush_seconds = open_store, flush_seconds
        self._retention = retention or Retention()
        self._lock = threading.Lock()
        self._store: Store | None = None
        self._backlog, self._uses = Backlog(tried=time.monotonic()), OpenIntervals()
        self._ledger = UseLedger()
        self._flushed: float | None = None
        self._upkept_at = time.monotonic()
        self._size: tuple[float, int | None] = (float("-inf"), None)
        self._unexpected = FailureLog("andon.recorder", "recording failed; retrying")
        self._retrying = Retrying(log.warning, TEXTS, self._translated, back_off)
        self._follower = Follower(
            subscription,
            lambda snapshot: self._retrying.attempt(partial(self._take, snapshot)),
            "recorder",
            self._unexpected,
            taking=SnapshotDelivery.BATCH,
            idle_seconds=self._rest_seconds,
            idle=self._flush_if_due,
            # At once, so that history can be queried before the first flush.
            begin=lambda: self._retrying.attempt(self._opened),
            end=self._finish,
        )
        self._follower.start()

    def health(self) -> RecorderHealth:
        """Returns whether readings are being written, and if not, why and since when."""
        with self._lock:
            backlog, failures = self._backlog, self._retrying.failures
            trouble = failures.trouble
            return RecorderHealth(
                ok=trouble is None,
                reason=trouble.reason if trouble else None,
                hint=trouble.hint if trouble else None,
                since=failures.since,
                buffered_snapshots=len(backlog.ticks),
                dropped_snapshots=backlog.dropped + self._follower.session.dropped,
                written_snapshots=backlog.written,
                flushed=self._flushed,
                size_bytes=self._size[1],
            )

    @property
    def store(self) -> Store:
        """The open store; raises Unavailable with the reason while there is none."""
        store, trouble = self._store, self._retrying.trouble
        if store is not None:
            return store
        reason = trouble.reason if trouble else "the history is not open yet"
        raise Unavailable(reason, hint=trouble.hint if trouble else "try again")

    def close(self) -> None:
        """Writes what is left, and closes the store."""
        self._follower.close(LEAVING_SECONDS)
        store, self._store = self._store, None
        if store is not None:
            with suppress(AndonError):
                store.close()

    # The thread.

    @property
    def _due(self) -> float:
        return self._backlog.due(self._flush_seconds, self._retrying.due)

    def _rest_seconds(self) -> float:
        """Returns the time until the next write, or until the session's queue is half full."""
        within = self._follower.session.poll_within_seconds
        return max(0.0, min(self._due - time.monotonic(), within))

    def _flush_if_due(self) -> None:
        if time.monotonic() >= self._due:
            self._flush()

    def _take(self, snapshot: Snapshot) -> None:
        self._see(snapshot)
        used, changes = self._ledger.take(snapshot)
        self._uses, changed = self._uses.follow(snapshot, changes)
        with self._lock:
            self._backlog = self._backlog.add(tick_of(snapshot), changed, facts_of(snapshot), used)

    def _flush(self) -> None:
        if self._retrying.attempt(self._write) is not None:
            with self._lock:
                self._backlog = self._backlog.failed(time.monotonic())
        elif time.monotonic() - self._upkept_at >= UPKEEP_SECONDS:
            self._retrying.attempt(self._maintain)

    def _finish(self) -> None:
        with self._lock:
            self._backlog = replace(
                self._backlog, used=(*self._backlog.used, *self._ledger.close())
            )
        self._flush()

    def _opened(self) -> Store:
        if self._store is None:
            self._store = self._open_store()
        return self._store

    def _write(self) -> None:
        store = self._opened()
        self._uses, changed = self._uses.settle()
        with self._lock:
            backlog = self._backlog = self._backlog.lengthened(changed)
        if not (backlog.ticks or backlog.used):
            self._backlog = backlog.flushed(time.monotonic())
            return  # the store was not used
        ticks = (*backlog.ticks, *backlog.used)
        store.write(ticks, tuple(backlog.uses.values()), backlog.devices)
        with self._lock:
            self._backlog = backlog.flushed(time.monotonic())
            self._flushed = time.time()
            self._retrying.succeeded()
        self._measure(store)

    def _measure(self, store: Store) -> None:
        """Measures the store in this thread, for all callers: a disk that hangs must not stop a
        scrape."""
        if time.monotonic() - self._size[0] >= SIZE_SECONDS:
            size = None
            with suppress(AndonError, OSError):
                size = store.size_bytes()
            self._size = time.monotonic(), size

    def _maintain(self) -> None:
        """Does some maintenance; if more is due, the next flush continues."""
        if Maintainer(self._opened(), self._retention).step(time.time()).idle:
            self._upkept_at = time.monotonic()

    def _translated(self, error: Exception) -> AndonError:
        self._unexpected.add(error)
        return Unavailable(f"recording failed: {error}")
