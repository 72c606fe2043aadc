"""A recording as a viewer plays it: at its own pace, paused, and stepped through both ways."""

import threading
import time
from collections.abc import Iterator
from typing import Self

from msgspec.structs import replace

from andon.drivers.replay.recording import Recording
from andon.host.files import expanded
from andon.model.device import Snapshot
from andon.settings.resolution import Settings
from andon.units import human_seconds

STEP_SECONDS = 0.1  # between two checks for a newer snapshot


class PlayedSession:
    """Snapshots as they were recorded, with the times of then."""

    dropped = 0

    def __init__(self, settings: Settings) -> None:
        path = expanded(settings.replay)
        self._recording = Recording(str(path.absolute()), settings.replay_loop)
        self._name, self._speed = path.name, settings.replay_speed
        self._elapsed, self._since = 0.0, time.monotonic()
        self._paused, self._shown = False, -1.0
        self._stepped: float | None = None  # where the last step went
        self._changed, self._closed = threading.Condition(), False

    @property
    def playing(self) -> Self:
        return self

    def get(self, timeout_seconds: float | None = None) -> Snapshot | None:
        until = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with self._changed:
            while (snapshot := self._newer()) is None:
                if self._closed or (until is not None and time.monotonic() >= until):
                    return None
                self._changed.wait(STEP_SECONDS)
        return replace(snapshot, versions={**snapshot.versions, "replay": self._name})

    def _newer(self) -> Snapshot | None:
        found = self._recording.at(self._position())
        if found.offset_seconds == self._shown:
            return None
        self._shown = found.offset_seconds
        return found.snapshot

    def _position(self) -> float:
        if self._paused:
            return self._elapsed
        return self._elapsed + (time.monotonic() - self._since) * self._speed

    def pause(self, paused: bool) -> None:
        with self._changed:
            self._elapsed, self._since = self._position(), time.monotonic()
            self._paused, self._stepped = paused, None
            self._changed.notify_all()

    def step(self, by: int) -> None:
        with self._changed:
            shown = self._shown if self._shown >= 0 else 0.0
            # A key may come before the last step was shown: the next one goes on from there.
            now = shown if self._stepped is None else self._stepped
            self._elapsed = self._stepped = self._recording.beside(now, by)
            self._paused = True
            self._changed.notify_all()

    def place(self) -> str:
        shown = max(0.0, self._shown)
        return f"{self._name} +{human_seconds(shown) if shown >= 60 else f'{shown:.1f} s'}"

    def pace(self, interval_seconds: float) -> None:
        """Does nothing: a recording has its own pace."""

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Snapshot]:
        while (found := self.get()) is not None:
            yield found
