"""The answer to a scrape: the last snapshot of a feed, so that a scrape reads no device."""

import time

from andon.errors import Unavailable
from andon.exporter.exposition import Exposition
from andon.exporter.spreads import ServerCounts, Service
from andon.sampling.snapshot_feed import SnapshotFeed

FIRST_SECONDS = 5.0  # how long a scrape waits for the first snapshot


def scraped(
    feed: SnapshotFeed,
    exposition: Exposition,
    service: Service | None = None,
    wait_seconds: float = FIRST_SECONDS,
    counts: ServerCounts | None = None,
) -> str:
    """Returns the last snapshot as Prometheus text, however old: its age is exported too."""
    feed.wait_for_first(wait_seconds)
    snapshot = feed.last
    if snapshot is None:
        raise Unavailable("no reading yet", hint="try again in a few seconds")
    return exposition.render(snapshot, feed.costs(), time.time(), service, counts)
