"""The parts that read the devices: in every process that runs until a signal."""

from collections.abc import Iterator

from andon.app.sampler import open_sampler
from andon.model.device import Snapshot
from andon.node.watched.live import WatchedLive
from andon.sampling.sampler import Sampler
from andon.settings.resolution import Settings

FIRST_SNAPSHOT_SECONDS = 5.0


def sampler(settings: Settings) -> Iterator[Sampler]:
    with open_sampler(settings) as opened:
        yield opened


def live(settings: Settings, sampler: Sampler, past_snapshots: int = 1) -> WatchedLive:
    """The readings of this machine's node."""
    return WatchedLive(sampler, settings.interval_seconds, past_snapshots)


def first_snapshot(settings: Settings, live: WatchedLive) -> Iterator[Snapshot | None]:
    """The first one; None if the devices have not responded by then."""
    live.wait_for_first(settings.deadline_seconds + FIRST_SNAPSHOT_SECONDS)
    yield live.last


READINGS = (sampler, live)
DEVICES = (*READINGS, first_snapshot)
