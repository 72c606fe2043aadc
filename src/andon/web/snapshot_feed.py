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
PAST_LOOKS = 240
LOOKED_AT_SECONDS = 15.0  # after the last request nobody looks on any more
HIDDEN = "shown to callers with the token"


class SnapshotFeed:
    """Follows the sampler in a thread of its own, whether or not anyone is connected."""

    def __init__(self, sampler: Sampler, settings: Settings) -> None:
        self.settings = settings
        self.began = time.monotonic()
        self._sampler = sampler
        self._past: deque[Snapshot] = deque(maxlen=PAST_LOOKS)
        self._heard_at = 0.0  # on the monotonic clock
        self._looked_at = 0.0
        self._first = threading.Event()
        self._listeners: list[Callable[[Snapshot], None]] = []
        self._session = sampler.subscribe(settings.interval_seconds, watching=False, size=8)
        self._thread = threading.Thread(target=self._follow, name="andon station", daemon=True)
        self._thread.start()

    # For those who ask.

    @property
    def last(self) -> Snapshot | None:
        """The last snapshot, for a machine that asks; None before the first."""
        return self._past[-1] if self._past else None

    def latest(self) -> Snapshot:
        """The last snapshot; someone looks on, so the dearer readings are taken, too."""
        self.looked()
        found = self.last
        if found is None:
            raise Unavailable("the first look at the devices is not done yet", hint="ask again")
        return found

    def past(self) -> list[Snapshot]:
        """What is still remembered, the oldest first."""
        latest = self.latest()
        return [one for one in list(self._past) if latest.at - one.at <= PAST_SECONDS]

    def looked(self) -> None:
        self._looked_at = time.monotonic()
        self._session.watching = True

    def wait_for_first(self, seconds: float) -> bool:
        return self._first.wait(seconds)

    def age_seconds(self) -> float | None:
        """How long ago the last snapshot came; None before the first."""
        return time.monotonic() - self._heard_at if self._past else None

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
        """Call this with every snapshot, from the station's thread; it must not block."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[Snapshot], None]) -> None:
        self._listeners.remove(listener)

    def close(self) -> None:
        self._session.close()

    # The thread.

    def _follow(self) -> None:
        for snapshot in self._session:
            self._past.append(snapshot)
            self._heard_at = time.monotonic()
            self._first.set()
            self._session.watching = self._heard_at - self._looked_at < LOOKED_AT_SECONDS
            self._tell(snapshot)

    def _tell(self, snapshot: Snapshot) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(snapshot)
            except Exception:
                log.exception("a listener failed; the others go on")


def for_strangers(snapshot: Snapshot) -> Snapshot:
    """Without command lines: names of programs are enough for those who show no token."""
    return replace(snapshot, devices=tuple(map(_discreet, snapshot.devices)))


def all_for_strangers(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    return [for_strangers(snapshot) for snapshot in snapshots]


def _discreet(status: DeviceStatus) -> DeviceStatus:
    if all(process.command is None for process in status.processes):
        return status
    return replace(
        status,
        processes=without_commands(status.processes),
        missing={**status.missing, "command": HIDDEN},
    )


def without_commands(processes: Sequence[Process]) -> tuple[Process, ...]:
    return tuple(replace(process, command=None) for process in processes)
