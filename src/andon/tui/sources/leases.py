"""Who holds, waits for and can get devices; read again when something has changed."""

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from andon.model.device import Snapshot
from andon.tui.sources.feed import Feed
from andon.tui.sources.snapshots import ServerSnapshots

if TYPE_CHECKING:
    from andon.model.lease_list import LeaseList
    from andon.node.port import Node

SHOWN_SECONDS = 3.0  # while they are what is looked at
AT_LEAST_SECONDS = 10.0  # a lock or the use of a device may change without a trace here
Traces = tuple[frozenset[tuple[str, int]], tuple[int, ...]]


class LeaseReader:
    """Reads when the books or the processes have changed, and otherwise every ten seconds."""

    def __init__(self, node: "Node", feed: Feed) -> None:
        self._node, self._feed = node, feed
        self._traces: Traces | None = None
        self._read_at = 0.0

    def read(self, snapshot: Snapshot, looked_at: bool) -> "LeaseList | None":
        """Returns the leases; None if nothing has changed since the last reading."""
        source, now = self._feed.source, time.monotonic()
        traces = _traces(snapshot)
        age = now - self._read_at
        fresh = age < (SHOWN_SECONDS if looked_at else AT_LEAST_SECONDS)
        if traces == self._traces and fresh:
            return None
        self._traces, self._read_at = traces, now
        node = source.node if isinstance(source, ServerSnapshots) else self._node
        return node.leases.listing(snapshot=snapshot)[1]


def _traces(snapshot: Snapshot) -> Traces:
    """What changes with almost every grant and release: processes, and the books' folders."""
    from andon.leases.book import places

    pids = frozenset((s.device.uuid, p.pid) for s in snapshot.devices for p in s.processes)
    stamps = []
    for book in places.books(os.environ):
        for part in places.MODES:
            with suppress(OSError):
                stamps.append((book / part).stat().st_mtime_ns)
    return pids, tuple(stamps)
