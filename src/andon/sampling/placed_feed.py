"""The latest snapshot with the places of devices, which are asked for when first wanted."""

import threading
import time

from andon.model.device import Snapshot
from andon.sampling.sampler import Sampler
from andon.sampling.snapshot_feed import SnapshotFeed

OVERTAKEN_SECONDS = 5.0  # what the feed gets this long after the first has places too


class PlacedFeed:
    """The snapshots of a feed. The first caller reads the devices once more, and waits for it."""

    def __init__(self, sampler: Sampler, feed: SnapshotFeed) -> None:
        self._sampler, self._feed = sampler, feed
        self._lock = threading.Lock()
        self._first: Snapshot | None = None
        self._first_at = 0.0  # on the monotonic clock: the wall clock may be set back

    def latest(self) -> Snapshot:
        with self._lock:
            if self._first is None:
                self._sampler.ask_places()
                self._first = self._sampler.once(with_host=False)
                self._first_at = time.monotonic()
        found, age = self._feed.latest(), self._feed.age_seconds()
        if age is not None and time.monotonic() - age >= self._first_at + OVERTAKEN_SECONDS:
            return found
        return max(self._first, found, key=lambda snapshot: snapshot.at)
