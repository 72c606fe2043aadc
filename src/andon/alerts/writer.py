"""Writes the alert state to its store in a separate thread, so a hanging disk delays no alert."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from andon.alerts.rules.outbox import Delivery, SavedAlerts
from andon.alerts.waits import USUAL, AlertWaits
from andon.errors import AndonError, Unavailable
from andon.failures.log import FailureLog
from andon.failures.retrying import Retrying, RetryTexts
from andon.model.alert import Alert
from andon.ports import AlertStore
from andon.units import human_seconds

log = logging.getLogger("andon.alert_writer")

MOST_CHANGED = 2000
PRUNE_SECONDS = 3600.0
TEXTS = RetryTexts(
    lambda reason: f"the alerts are kept in memory only: {reason}",
    lambda _lasted: "the alerts are written to disk again",
)


class AlertPage(Struct, frozen=True):
    """One write to the store; a later page replaces it, except for its changed alerts."""

    version: int
    state: Mapping[str, Any]
    changed: Mapping[str, Alert]
    deliveries: tuple[Delivery, ...]


class AlertWriter:
    """Writes the latest page as soon as the store accepts it, without blocking the caller."""

    def __init__(self, open_store: Callable[[], AlertStore], waits: AlertWaits = USUAL) -> None:
        self._open_store, self._waits = open_store, waits
        self._store: AlertStore | None = None
        self._saved: SavedAlerts | None = None
        self._opened = False
        self._page: AlertPage | None = None
        self._version = self._committed = 0
        self._unexpected = FailureLog(
            "andon.alert_writer", "the alerts could not be written; retrying"
        )
        self._retrying = Retrying(log.warning, TEXTS, self._translated, waits.back_off)
        self._pruned = time.monotonic()
        self._dropped = 0
        self._ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._loop, name="alert writer", daemon=True)
        self._thread.start()

    def opened(self, seconds: float) -> SavedAlerts | None:
        """Returns the saved state once the store is open; None if there is none, or not in time."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._opened or self._retrying.trouble is not None, seconds
            )
            return self._saved

    def write(
        self, state: Mapping[str, Any], changed: Sequence[Alert], deliveries: Sequence[Delivery]
    ) -> int:
        """Queues a page for writing; returns its number."""
        with self._changed:
            self._version += 1
            earlier = self._page.changed if self._page else {}
            merged = {**earlier, **{alert.id: alert for alert in changed}}
            self._dropped += max(0, len(merged) - MOST_CHANGED)
            latest = dict(list(merged.items())[-MOST_CHANGED:])
            self._page = AlertPage(self._version, state, latest, tuple(deliveries))
            self._changed.notify_all()
            return self._version

    def settle(self, seconds: float) -> bool:
        """Waits until all queued pages are written; returns at once if writing fails now."""
        if self.trouble is not None:
            return False
        with self._changed:
            version = self._version
            self._changed.wait_for(
                lambda: self._committed >= version or self._retrying.trouble is not None, seconds
            )
            return self._committed >= version

    @property
    def store(self) -> AlertStore:
        """The store for queries; Unavailable with the reason while it is not open."""
        store, trouble = self._store, self._retrying.trouble
        if store is not None:
            return store
        raise trouble or Unavailable("the alert history is not open yet", hint="try again")

    @property
    def trouble(self) -> tuple[AndonError, float] | None:
        """The reason why nothing can be written, and since when."""
        failures = self._retrying.failures
        seconds = self._retrying.stuck_seconds(self._waits.stuck_store)
        if failures.trouble is not None and failures.since is not None:
            return failures.trouble, failures.since
        if seconds is None:
            return None
        silent = Unavailable(
            f"the store has not responded for {human_seconds(seconds)}",
            hint="check its disk (dmesg, iostat) or its server",
        )
        return silent, time.time() - seconds

    @property
    def dropped(self) -> int:
        return self._dropped

    def close(self) -> None:
        """Writes the last page if the store accepts it in time, then closes the store."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join(self._waits.leaving)
        store, self._store = self._store, None
        if store is not None and not self._thread.is_alive():
            with suppress(AndonError):
                store.close()

    # The thread.

    def _loop(self) -> None:
        while self._wait():
            self._attempt()
        if self._page is not None:
            self._attempt()

    def _wait(self) -> bool:
        """Waits until there is something to do; returns False at the end."""
        with self._changed:
            while not self._ended:
                seconds = self._wait_seconds()
                if seconds <= 0:
                    return True
                self._changed.wait(seconds)
        return False

    def _attempt(self) -> None:
        self._retrying.attempt(self._turn)
        with self._changed:
            self._changed.notify_all()

    def _translated(self, error: Exception) -> AndonError:
        self._unexpected.add(error)
        return Unavailable(f"the alerts could not be written: {error}")

    def _wait_seconds(self) -> float:
        if self._store is None or self._page is not None:
            return self._retrying.due - time.monotonic()
        return PRUNE_SECONDS

    def _turn(self) -> None:
        store = self._store or self._open()
        with self._changed:
            page, self._page = self._page, None
        if page is not None:
            self._save(store, page)
        if time.monotonic() - self._pruned >= PRUNE_SECONDS:
            self._pruned = time.monotonic()
            store.prune(time.time())

    def _open(self) -> AlertStore:
        store = self._open_store()
        try:
            saved = store.load()
        except AndonError as exc:
            # Unreadable: the next page replaces it, so that alerts are stored again.
            log.warning("the stored alerts are discarded: %s", exc.reason)
            saved = None
        with self._changed:
            self._store, self._opened = store, True
            self._saved = saved
            self._retrying.succeeded()
        return store

    def _save(self, store: AlertStore, page: AlertPage) -> None:
        try:
            store.save(page.state, tuple(page.changed.values()), page.deliveries)
        except BaseException:
            with self._changed:  # a newer page may be queued, which lacks the earlier changes
                newer = self._page or page
                merged = {**page.changed, **newer.changed}
                self._page = AlertPage(newer.version, newer.state, merged, newer.deliveries)
            raise
        with self._changed:
            self._committed = page.version
            self._retrying.succeeded()
