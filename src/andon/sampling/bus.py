"""Passes each snapshot to the sessions for which one is due."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Self

from msgspec.structs import replace

from andon.model.device import Snapshot
from andon.model.event import Event
from andon.sampling.rules import timing

MOST_EVENTS = 256  # queued for one session; devices report a handful in a bad week


class Subscription:
    """One session: snapshots at its own interval, in a bounded queue that counts dropped ones."""

    playing = None  # no recording that can be paused

    def __init__(
        self, interval_seconds: float, watching: bool, size: int, leave: Callable[[], None]
    ) -> None:
        self.interval_seconds = interval_seconds
        self.watching = watching
        self.dropped = 0
        self.missed = 0
        self._slot: int | None = None
        self._snapshots: deque[Snapshot] = deque(maxlen=size)
        self._pending_events: tuple[Event, ...] = ()
        self._take: Callable[[Snapshot], object] | None = None
        self._changed = threading.Condition()
        self._on_close = [leave]
        self._closed = False

    def due(self, now: float) -> bool:
        """Whether this session has no snapshot in the current interval yet."""
        return self._slot is None or timing.slot(now, self.interval_seconds) > self._slot

    def pace(self, interval_seconds: float, now: float | None = None) -> None:
        """Sets the interval; the next snapshot is due when its next slot begins."""
        with self._changed:
            self.interval_seconds = interval_seconds
            self._slot = timing.slot(time.monotonic() if now is None else now, interval_seconds)

    def add_events(self, events: Sequence[Event]) -> None:
        """Keeps events until this session's next snapshot, which may be many samples away."""
        with self._changed:
            self._pending_events = (*self._pending_events, *events)[-MOST_EVENTS:]

    def call(self, take: Callable[[Snapshot], object]) -> None:
        """Calls `take` from now on, in the sampler's thread, instead of queueing: it must neither
        block nor raise. Waking a thread for each snapshot costs more than most callers do."""
        with self._changed:
            while self._snapshots:
                take(self._snapshots.popleft())
            self._take = take

    def put(self, snapshot: Snapshot, now: float) -> None:
        slot = timing.slot(now, self.interval_seconds)
        with self._changed:
            if self._slot is not None:
                self.missed += timing.missed(self._slot, slot)
            self._slot = slot
            if len(self._snapshots) == self._snapshots.maxlen:
                self.dropped += 1
                # The next reading replaces one that was not taken, but nothing replaces an event.
                left = self._snapshots.popleft().events
                self._pending_events = (*left, *self._pending_events)[-MOST_EVENTS:]
            if self._pending_events or snapshot.events:
                snapshot, self._pending_events = replace(snapshot, events=self._pending_events), ()
            if self._take is not None:
                self._take(snapshot)
                return
            self._snapshots.append(snapshot)
            self._changed.notify()

    def get(self, timeout_seconds: float | None = None) -> Snapshot | None:
        """Returns the next snapshot; None after the timeout or when the session was closed."""
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with self._changed:
            while not self._snapshots and not self._closed:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._changed.wait(left)
            return self._snapshots.popleft() if self._snapshots else None

    @property
    def poll_within_seconds(self) -> float:
        """How often to read the queue so that nothing is dropped, with a margin."""
        return self.interval_seconds * (self._snapshots.maxlen or 1) / 2

    @property
    def closed(self) -> bool:
        """Whether the session has ended and its queue has been read."""
        return self._closed and not self._snapshots

    def on_close(self, call: Callable[[], None]) -> None:
        """Calls this once when the session ends."""
        self._on_close.append(call)

    def close(self) -> None:
        """Ends the session; what is queued can still be read."""
        with self._changed:
            self._closed = True
            calls, self._on_close = self._on_close, []
            self._changed.notify_all()
        for call in calls:
            call()

    def forget(self) -> None:
        """Ends the session in a forked child: nothing will be published there, and the lock may
        never be released."""
        self._changed, self._closed, self._on_close = threading.Condition(), True, []

    def __iter__(self) -> Iterator[Snapshot]:
        while (snapshot := self.get()) is not None:
            yield snapshot

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Bus:
    """The sessions of one sampler; a slow one does not block the others."""

    def __init__(self) -> None:
        self._subscriptions: tuple[Subscription, ...] = ()
        self._lock = threading.Lock()

    def subscribe(
        self, interval_seconds: float, watching: bool, size: int, seen_at: float | None = None
    ) -> Subscription:
        """Returns a new session, due at once unless it has seen a snapshot at that time."""
        subscription = Subscription(
            interval_seconds, watching, size, leave=lambda: self._remove(subscription)
        )
        if seen_at is not None:
            subscription.pace(interval_seconds, seen_at)
        with self._lock:
            self._subscriptions = (*self._subscriptions, subscription)
        return subscription

    def add_events(self, events: Sequence[Event]) -> None:
        """Adds events; every session gets each event exactly once, with its own next snapshot."""
        for subscription in self._subscriptions:
            subscription.add_events(events)

    def publish(self, snapshot: Snapshot, now: float) -> None:
        for subscription in self._subscriptions:
            if subscription.due(now):
                subscription.put(snapshot, now)

    @property
    def is_watched(self) -> bool:
        """Whether a person is watching, which justifies the expensive readings."""
        return any(subscription.watching for subscription in self._subscriptions)

    def wake_at(self, now: float) -> float | None:
        """Returns when the next sample is due; a new session is due at once."""
        sessions = self._subscriptions
        if any(session.due(now) for session in sessions):
            return now
        return timing.wake_at(now, (session.interval_seconds for session in sessions))

    def missed(self) -> int:
        return sum(subscription.missed for subscription in self._subscriptions)

    def close(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()

    def forget(self) -> None:
        """Ends every session of the parent in a forked child."""
        self._lock = threading.Lock()
        for subscription in self._subscriptions:
            subscription.forget()

    def _remove(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions = tuple(s for s in self._subscriptions if s is not subscription)
