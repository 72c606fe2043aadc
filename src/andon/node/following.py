"""Follows a node that is asked again and again: its snapshots, its alerts."""

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
    """New snapshots, polled at an interval; each is yielded once.

    The first one must succeed; a later one may take its time.
    """

    dropped = 0

    def __init__(
        self,
        first: Callable[[], Snapshot],
        later: Callable[[], Snapshot],
        interval_seconds: float,
    ) -> None:
        self._first, self._later, self._interval = first, later, interval_seconds

    def __iter__(self) -> Iterator[Snapshot]:
        last: float | None = None
        while True:
            asked = time.monotonic()
            snapshot = self._first() if last is None else self._later()
            if snapshot.at != last:
                last = snapshot.at
                yield snapshot
            time.sleep(max(0.05, asked + self._interval - time.monotonic()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing: there is nothing to close."""


def followed(alerts: "NodeAlerts", devices: Sequence[str]) -> Iterator[AlertOverview]:
    """Yields the active alerts and those that ended meanwhile, again and again."""
    page = alerts.page(None, devices)
    while True:
        yield page
        time.sleep(FOLLOW_SECONDS)
        page = alerts.page(page.at - OVERLAP_SECONDS, devices)  # by the node's own clock
