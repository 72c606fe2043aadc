"""One session that many callers read: the latest snapshot, and the last minutes."""

import threading
import time
from collections import deque
from collections.abc import Callable

from andon.errors import Unavailable
from andon.failures.listeners import Listeners
from andon.failures.log import FailureLog
from andon.model.device import Snapshot
from andon.sampling.bus import Subscription
from andon.sampling.sampler import Costs, Sampler
from andon.settings.resolution import Settings

PAST_SECONDS = 120.0
PAST_SNAPSHOTS = 240
WATCHED_SECONDS = 15.0  # how long after the last request someone counts as watching


class SnapshotFeed:
    """Follows the sampler, in its thread, whether or not anyone reads it."""

    def __init__(
        self,
        session: Subscription,
        settings: Settings,
        costs: Callable[[], Costs | None],
        reader_pids: Callable[[], list[int]] = list,
        past_snapshots: int = 1,
    ) -> None:
        self.settings, self.costs, self.reader_pids = settings, costs, reader_pids
        self.began = time.monotonic()
        self._session = session
        self._past: deque[Snapshot] = deque(maxlen=past_snapshots)
        self._received_at = 0.0  # on the monotonic clock
        self._watched_at = 0.0
        self._first = threading.Event()
        failures = FailureLog("andon.snapshots", "a snapshot listener failed; the others continue")
        self._listeners: Listeners[[Snapshot]] = Listeners(failures)
        session.call(self._take)

    @property
    def last(self) -> Snapshot | None:
        """The last snapshot, for automatic polling; None before the first."""
        return self._past[-1] if self._past else None

    def latest(self) -> Snapshot:
        """The last snapshot, for someone watching: expensive readings are taken from now on."""
        self.mark_watched()
        return self.newest()

    def newest(self) -> Snapshot:
        """The last snapshot, for those who are no reason for expensive readings."""
        found = self.last
        if found is None:
            raise Unavailable("waiting for the first reading", hint="try again in a few seconds")
        return found

    def past(self) -> list[Snapshot]:
        """The snapshots of the last minutes, oldest first; after the clock was set back only those
        since then, because the earlier ones would look newer."""
        latest = self.latest()
        return [one for one in list(self._past) if 0.0 <= latest.at - one.at <= PAST_SECONDS]

    def mark_watched(self) -> None:
        self._watched_at = time.monotonic()
        self._session.watching = True

    def wait_for_first(self, seconds: float) -> bool:
        """Whether there is a snapshot by then; does not wait once this is closed."""
        self._first.wait(seconds)
        return bool(self._past)

    def age_seconds(self) -> float | None:
        """The age of the last snapshot; None before the first."""
        return time.monotonic() - self._received_at if self._past else None

    @property
    def dropped(self) -> int:
        return self._session.dropped

    @property
    def runs(self) -> bool:
        return not self._session.closed

    def listen(self, listener: Callable[[Snapshot], object]) -> Callable[[], None]:
        """Calls a listener with every snapshot, from the sampler's thread; it must not block.
        Returns a function that stops it."""
        return self._listeners.add(listener)

    def close(self) -> None:
        """End the session; the last snapshot stays."""
        self._session.close()
        self._first.set()

    def _take(self, snapshot: Snapshot) -> None:
        self._past.append(snapshot)
        self._received_at = time.monotonic()
        self._first.set()
        self._session.watching = self._received_at - self._watched_at < WATCHED_SECONDS
        self._listeners.notify(snapshot)


# The latest snapshot with the places of devices, which are asked for when first wanted.

OVERTAKEN_SECONDS = 5.0  # what the feed gets this long after the first has places too


class PlacedFeed:
    """The snapshots of a feed. The first caller waits while the devices are read once more."""

    def __init__(
        self,
        sampler: Sampler,
        feed: SnapshotFeed,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sampler, self._feed, self._clock = sampler, feed, clock
        self._lock = threading.Lock()
        self._first: Snapshot | None = None
        self._first_at = 0.0  # on the monotonic clock: the wall clock may be set back

    def latest(self) -> Snapshot:
        with self._lock:
            if self._first is None:
                self._sampler.ask_places()
                self._first = self._sampler.once(with_host=False)
                self._first_at = self._clock()
        found, age = self._feed.latest(), self._feed.age_seconds()
        if age is not None and self._clock() - age >= self._first_at + OVERTAKEN_SECONDS:
            return found
        return max(self._first, found, key=lambda snapshot: snapshot.at)
