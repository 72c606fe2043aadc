"""The answer to a scrape: the last snapshot of a node, so that a scrape reads no device."""

import time
from typing import Protocol

from andon.errors import Unavailable
from andon.exporter.exposition import Exposition
from andon.exporter.spreads import ServerCounts, Service
from andon.model.device import Snapshot
from andon.sampling.sampler import Costs

FIRST_SECONDS = 5.0  # how long a scrape of the exporter waits for the first snapshot


class KeptReadings(Protocol):
    """The readings of a node that a server has, or a feed of them."""

    def newest(self) -> Snapshot:
        """The last snapshot, for those who are no reason for expensive readings."""

    def costs(self) -> Costs | None: ...


def scraped(
    live: KeptReadings,
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
