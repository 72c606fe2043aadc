"""The latest snapshot with the places of devices, which are asked for when first wanted."""

import threading

from andon.engine.sampling.sampler import Sampler
from andon.engine.sampling.snapshot_feed import SnapshotFeed
from andon.model.device import Snapshot


class PlacedFeed:
    """The snapshots of a feed. The first caller reads the devices once more, and waits for it."""

    def __init__(self, sampler: Sampler, feed: SnapshotFeed) -> None:
        self._sampler, self._feed = sampler, feed
        self._lock = threading.Lock()
        self._first: Snapshot | None = None

    def latest(self) -> Snapshot:
        with self._lock:
            if self._first is None:
                self._sampler.ask_places()
                self._first = self._sampler.once(hasty=True)
        return max(self._first, self._feed.latest(), key=lambda snapshot: snapshot.at)
