"""Who holds, waits for and can get devices; read again when something has changed."""

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from andon.model.device import Snapshot
from andon.tui.sources.feed import Feed
from andon.tui.sources.snapshots import ServerSnapshots

if TYPE_CHECKING:
    from andon.leases.availability import Availability
    from andon.model.lease_list import LeaseList
    from andon.settings.resolution import Settings

SHOWN_SECONDS = 3.0  # while they are what is looked at
AT_LEAST_SECONDS = 10.0  # a lock or the use of a device may change without a trace here
Traces = tuple[frozenset[tuple[str, int]], tuple[int, ...]]


class LeaseReader:
    """Reads when the books or the processes have changed, and otherwise every ten seconds."""

    def __init__(self, settings: "Settings", feed: Feed) -> None:
        self._settings, self._feed = settings, feed
        self._availability: Availability | None = None
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
        if isinstance(source, ServerSnapshots):
            from andon.cli.lease_source import leases_of_server

            return leases_of_server(source.server)
        return self._here(snapshot)

    def _here(self, snapshot: Snapshot) -> "LeaseList":
        from andon.app import open_availability
        from andon.leases.book.lease_book import Book
        from andon.leases.listing import listing, read_listing
        from andon.leases.releaser import asker

        if self._availability is None:
            broken = dict if snapshot.simulated else None
            self._availability = open_availability(
                self._settings, lambda: snapshot, simulated=True, broken=broken
            )
        view = self._availability.view_of(snapshot)
        return listing(read_listing(self._availability, view, Book(make=False)), asker())


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
