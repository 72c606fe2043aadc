"""The parts that read the devices: in every process that runs until a signal."""

from collections.abc import Iterator

from andon.app.sampler import open_sampler
from andon.model.device import Snapshot
from andon.sampling.sampler import Sampler
from andon.sampling.snapshot_feed import SnapshotFeed
from andon.settings.resolution import Settings

FIRST_SNAPSHOT_SECONDS = 5.0


def sampler(settings: Settings) -> Iterator[Sampler]:
    with open_sampler(settings) as opened:
        yield opened


def feed(settings: Settings, sampler: Sampler, past_snapshots: int = 1) -> SnapshotFeed:
    session = sampler.subscribe(settings.interval_seconds, size=8)
    return SnapshotFeed(session, settings, sampler.costs, sampler.reader_pids, past_snapshots)


def first_snapshot(settings: Settings, feed: SnapshotFeed) -> Iterator[Snapshot | None]:
    """The first one; None if the devices have not responded by then."""
    feed.wait_for_first(settings.deadline_seconds + FIRST_SNAPSHOT_SECONDS)
    yield feed.last


DEVICES = (sampler, feed, first_snapshot)
