"""The answer to a scrape: a node's last snapshot, without reading devices."""

import time

from andon.errors import Unavailable
from andon.exporter.exposition import Exposition
from andon.exporter.spreads import ServerCounts, Service
from andon.node.watched.live import ServedLive

FIRST_SECONDS = 5.0  # how long a scrape of the exporter waits for the first snapshot


def scraped(
    live: ServedLive,
    exposition: Exposition,
    service: Service | None = None,
    counts: ServerCounts | None = None,
) -> str:
    """Returns the last snapshot as Prometheus text, however old: its age is exported too."""
    try:
        snapshot = live.newest()
    except Unavailable as exc:
        raise Unavailable("no reading yet", hint=exc.hint) from exc
    return exposition.render(snapshot, live.costs(), time.time(), service, counts)
