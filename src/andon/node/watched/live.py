"""Readings that a server has in memory: the latest snapshot, and the last minutes."""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from andon.errors import Unavailable
from andon.failures.listeners import Listeners
from andon.failures.log import FailureLog
from andon.model.alert import Alert
from andon.model.device import Snapshot
from andon.sampling.bus import Subscription
from andon.sampling.sampler import Costs

if TYPE_CHECKING:  # the exporter alone needs neither alerts nor texts
    from andon.model.lamp import DeviceLamp
    from andon.node.port import SnapshotSession
    from andon.node.seen.texts import SnapshotTexts

PAST_SECONDS = 120.0
PAST_SNAPSHOTS = 240
WATCHED_SECONDS = 15.0  # how long after the last request someone counts as watching
OVERTAKEN_SECONDS = 5.0  # what comes this long after places were asked for has them


class ServedLive:
    """Fills LiveReadings; `latest` waits for no device. Methods that are not overridden fit a node
    whose readings come from elsewhere."""

    def __init__(self, interval_seconds: float) -> None:
        self.interval_seconds = interval_seconds
        self.alerts: Callable[[], Sequence[Alert]] = tuple
        """The node's current alerts, for its lamps."""

    @cached_property
    def texts(self) -> "SnapshotTexts":
        """The snapshot as JSON for each sight, cached until something changes."""
        from andon.node.seen.texts import SnapshotTexts

        return SnapshotTexts()

    def newest(self) -> Snapshot:
        """Returns the latest snapshot, without asking for expensive readings."""
        raise NotImplementedError

    def minutes(self) -> Sequence[Snapshot]:
        raise NotImplementedError

    def latest(
        self,
        expensive_fields: bool = False,
        twice: bool = False,
        commands: bool = True,
        meanwhile: Callable[[], None] | None = None,
    ) -> Snapshot:
        """Returns the latest for someone watching: expensive readings are taken from now on."""
        self.mark_watched()
        return self.newest()

    def read(self, expensive_fields: bool = False) -> Snapshot:
        return self.latest()

    def placed(self) -> Snapshot:
        return self.latest()

    def subscribe(
        self, interval_seconds: float, watching: bool = False, stays: bool = False
    ) -> "SnapshotSession":
        from andon.node.following import PolledSession

        return PolledSession(self.read, interval_seconds)

    def with_driver_versions(self, snapshot: Snapshot) -> Snapshot:
        return snapshot

    def lamps(self, snapshot: Snapshot) -> "tuple[DeviceLamp, ...]":
        from andon.alerts.rules.lamps import lamps_of

        return lamps_of(snapshot, list(self.alerts()))

    def minutes_key(self) -> Hashable | None:
        """Returns a key of the snapshots in `minutes`; None if reading those is cheap."""
        return None

    def costs(self) -> Costs | None:
        """Returns what sampling costs; None if this process does not sample."""
        return None

    def listen(self, listener: Callable[[Snapshot], object]) -> Callable[[], None]:
        """Calls the listener with every new snapshot, from any thread; it must not block. Returns a
        function that stops that."""
        return lambda: None

    def mark_watched(self) -> None:
        """Requests expensive readings for a while."""


class SharedSampler(Protocol):
    """A sampler with several users."""

    def subscribe(self, interval_seconds: float, watching: bool = False) -> Subscription: ...

    def once(self, expensive_fields: bool = False, with_host: bool = True) -> Snapshot: ...

    def ask_places(self) -> None: ...

    def costs(self) -> Costs | None: ...


class WatchedLive(ServedLive):
    """Follows a sampler in a thread of its own, whether or not anyone reads the snapshots."""

    def __init__(
        self,
        sampler: SharedSampler,
        interval_seconds: float,
        past_snapshots: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(interval_seconds)
        self._sampler, self._clock = sampler, clock
        self.began = clock()
        self._past: deque[Snapshot] = deque(maxlen=past_snapshots)
        self._received_at = self._watched_at = 0.0  # on the monotonic clock
        self._placed: tuple[Snapshot, float] | None = None
        self._placing, self._first = threading.Lock(), threading.Event()
        failures = FailureLog("andon.snapshots", "a snapshot listener failed; the others continue")
        self._listeners: Listeners[[Snapshot]] = Listeners(failures)
        self._session = sampler.subscribe(interval_seconds)
        self._session.call(self._take)

    @property
    def last(self) -> Snapshot | None:
        """The last snapshot; None before the first. Does not request expensive readings."""
        return self._past[-1] if self._past else None

    def newest(self) -> Snapshot:
        if (found := self.last) is None:
            raise Unavailable("waiting for the first reading", hint="try again in a few seconds")
        return found

    def minutes(self) -> list[Snapshot]:
        """Returns the last minutes; after the clock was set back, only snapshots taken since."""
        latest = self.latest()
        return [one for one in list(self._past) if 0.0 <= latest.at - one.at <= PAST_SECONDS]

    def placed(self) -> Snapshot:
        """Returns a snapshot with the devices' places; the first call reads devices again."""
        with self._placing:
            if self._placed is None:
                self._sampler.ask_places()
                self._placed = self._sampler.once(with_host=False), self._clock()
            (first, requested_at), found = self._placed, self.latest()
        if self._received_at >= requested_at + OVERTAKEN_SECONDS:
            return found
        return max(first, found, key=lambda snapshot: snapshot.at)

    def subscribe(
        self, interval_seconds: float, watching: bool = False, stays: bool = False
    ) -> Subscription:
        return self._sampler.subscribe(interval_seconds, watching)

    def costs(self) -> Costs | None:
        return self._sampler.costs()

    def mark_watched(self) -> None:
        self._watched_at = self._clock()
        self._session.watching = True

    def wait_for_first(self, seconds: float) -> bool:
        """Waits for the first snapshot, unless this is closed; returns whether there is one."""
        self._first.wait(seconds)
        return bool(self._past)

    def age_seconds(self) -> float | None:
        """Returns the age of the last snapshot; None before the first."""
        return self._clock() - self._received_at if self._past else None

    @property
    def dropped(self) -> int:
        return self._session.dropped

    @property
    def runs(self) -> bool:
        return not self._session.closed

    def listen(self, listener: Callable[[Snapshot], object]) -> Callable[[], None]:
        return self._listeners.add(listener)

    def close(self) -> None:
        """Ends the session; the last snapshot remains."""
        self._session.close()
        self._first.set()

    def _take(self, snapshot: Snapshot) -> None:
        self._past.append(snapshot)
        self._received_at = self._clock()
        self._first.set()
        self._session.watching = self._received_at - self._watched_at < WATCHED_SECONDS
        self._listeners.notify(snapshot)
