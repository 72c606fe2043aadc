"""Keeps the last snapshot of a session, so that a scrape reads no device."""

import threading
import time
from collections.abc import Callable

from andon.engine.sampling.bus import Subscription
from andon.engine.sampling.sampler import Costs
from andon.errors import Unavailable
from andon.exporter.exposition import Exposition
from andon.exporter.spreads import Service
from andon.model.device import Snapshot

FIRST_SECONDS = 5.0  # how long a scrape waits for the first snapshot


class Latest:
    """Follows a subscription in its own thread until it is closed."""

    def __init__(self, subscription: Subscription, costs: Callable[[], Costs | None]) -> None:
        self._subscription, self._costs = subscription, costs
        self._snapshot: Snapshot | None = None
        self._first = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="andon exporter", daemon=True)
        self._thread.start()

    def snapshot(self, timeout_seconds: float = FIRST_SECONDS) -> Snapshot:
        """The last snapshot, however old: its age is exported too."""
        self._first.wait(timeout_seconds)
        if self._snapshot is None:
            raise Unavailable("no reading yet", hint="try again in a few seconds")
        return self._snapshot

    def text(self, exposition: Exposition, service: Service | None) -> str:
        """The snapshot as Prometheus text."""
        return exposition.render(self.snapshot(), self._costs(), time.time(), service)

    @property
    def dropped(self) -> int:
        return self._subscription.dropped

    def close(self) -> None:
        self._subscription.close()
        self._first.set()
        self._thread.join()

    def _follow(self) -> None:
        for snapshot in self._subscription:
            self._snapshot = snapshot
            self._first.set()
