"""The server's one session with the sampler: the latest snapshot, and the last minutes."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from andon.core.settings.resolution import Settings
from andon.engine.sampling.sampler import Costs, Sampler
from andon.errors import Unavailable
from andon.model.device import DeviceStatus, Process, Snapshot

log = logging.getLogger("andon.web")

PAST_SECONDS = 120.0
PAST_SNAPSHOTS = 240
WATCHED_SECONDS = 15.0  # how long after the last request someone counts as watching
HIDDEN = "shown to callers with the token"


class SnapshotFeed:
    """Follows the sampler in its own thread, whether or not anyone is connected."""

    def __init__(self, sampler: Sampler, settings: Settings) -> None:
        self.settings = settings
        self.began = time.monotonic()
        self._sampler = sampler
        self._past: deque[Snapshot] = deque(maxlen=PAST_SNAPSHOTS)
        self._received_at = 0.0  # on the monotonic clock
        self._watched_at = 0.0
        self._first = threading.Event()
        self._listeners: list[Callable[[Snapshot], None]] = []
        self._session = sampler.subscribe(settings.interval_seconds, watching=False, size=8)
        self._thread = threading.Thread(target=self._follow, name="andon snapshots", daemon=True)
        self._thread.start()

    # For routes and live events.

    @property
    def last(self) -> Snapshot | None:
        """The last snapshot, for automatic polling; None before the first."""
        return self._past[-1] if self._past else None

    def latest(self) -> Snapshot:
        """The last snapshot, for someone watching: expensive readings are taken from now on."""
        self.watched()
        found = self.last
        if found is None:
            raise Unavailable("waiting for the first reading", hint="try again in a few seconds")
        return found

    def past(self) -> list[Snapshot]:
        """The snapshots of the last minutes, oldest first."""
        latest = self.latest()
        return [one for one in list(self._past) if latest.at - one.at <= PAST_SECONDS]

    def watched(self) -> None:
        self._watched_at = time.monotonic()
        self._session.watching = True

    def wait_for_first(self, seconds: float) -> bool:
        return self._first.wait(seconds)

    def age_seconds(self) -> float | None:
        """The age of the last snapshot; None before the first."""
        return time.monotonic() - self._received_at if self._past else None

    def costs(self) -> Costs:
        return self._sampler.costs()

    def reader_pids(self) -> list[int]:
        return self._sampler.reader_pids()

    @property
    def dropped(self) -> int:
        return self._session.dropped

    @property
    def runs(self) -> bool:
        return self._thread.is_alive()

    def listen(self, listener: Callable[[Snapshot], None]) -> None:
        """Call this with every snapshot, from the feed's thread; it must not block."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[Snapshot], None]) -> None:
        self._listeners.remove(listener)

    def close(self) -> None:
        self._session.close()

    # The thread.

    def _follow(self) -> None:
        for snapshot in self._session:
            self._past.append(snapshot)
            self._received_at = time.monotonic()
            self._first.set()
            self._session.watching = self._received_at - self._watched_at < WATCHED_SECONDS
            self._publish(snapshot)

    def _publish(self, snapshot: Snapshot) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(snapshot)
            except Exception:
                log.exception("a snapshot listener failed; the others continue")


def for_anonymous(snapshot: Snapshot) -> Snapshot:
    """Without command lines: callers without the token see only program names."""
    return replace(snapshot, devices=tuple(map(_without_commands, snapshot.devices)))


def all_for_anonymous(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    return [for_anonymous(snapshot) for snapshot in snapshots]


def _without_commands(status: DeviceStatus) -> DeviceStatus:
    if all(process.command is None for process in status.processes):
        return status
    return replace(
        status,
        processes=without_commands(status.processes),
        missing={**status.missing, "command": HIDDEN},
    )


def without_commands(processes: Sequence[Process]) -> tuple[Process, ...]:
    return tuple(replace(process, command=None) for process in processes)
