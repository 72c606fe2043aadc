"""Polls a node for its snapshots and its alerts."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Self

from andon.alerts.rules.overview import AlertOverview
from andon.model.device import Snapshot

if TYPE_CHECKING:
    from andon.node.port import NodeAlerts

FOLLOW_SECONDS = 1.0
OVERLAP_SECONDS = 10.0  # asked for twice, so that nothing that ended meanwhile is missed


class PolledSession:
    """Polls for snapshots at an interval and yields each one once."""

    dropped, playing = 0, None

    def __init__(
        self,
        read: Callable[[], Snapshot],
        interval_seconds: float,
        patiently: Callable[[], Snapshot] | None = None,
    ) -> None:
        """Iteration takes the first snapshot from `read`, which raises if there is none, and later
        ones from `patiently`, which may wait."""
        self._read, self._patiently, self._interval = read, patiently or read, interval_seconds
        self._due, self._last = 0.0, -1.0
        self._woken = threading.Event()

    def get(self, timeout_seconds: float | None = None) -> Snapshot | None:
        self._woken.clear()
        wait = max(0.0, self._due - time.monotonic())
        most = wait if timeout_seconds is None else min(wait, timeout_seconds)
        if self._woken.wait(most) or most < wait:
            return None
        return self._next(self._read)

    def pace(self, interval_seconds: float) -> None:
        self._interval, self._due = interval_seconds, 0.0
        self._woken.set()

    def close(self) -> None:
        self._woken.set()

    def __iter__(self) -> Iterator[Snapshot]:
        read = self._read
        while True:
            if (found := self._next(read)) is not None:
                yield found
            read = self._patiently
            time.sleep(max(0.05, self._due - time.monotonic()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next(self, read: Callable[[], Snapshot]) -> Snapshot | None:
        self._due = time.monotonic() + self._interval
        found = read()
        if found.at == self._last:
            return None
        self._last = found.at
        return found


def followed(alerts: "NodeAlerts", devices: Sequence[str]) -> Iterator[AlertOverview]:
    """Yields the active alerts, and those that ended since the last page, every few seconds."""
    page = alerts.page(None, devices)
    while True:
        yield page
        time.sleep(FOLLOW_SECONDS)
        page = alerts.page(page.at - OVERLAP_SECONDS, devices)  # by the node's own clock
