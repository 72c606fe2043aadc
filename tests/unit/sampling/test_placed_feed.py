"""Snapshots that are kept: the latest with places, and those of the last minutes."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from andon.model.device import Snapshot
from andon.sampling.bus import Bus
from andon.sampling.snapshot_feed import OVERTAKEN_SECONDS, PlacedFeed, SnapshotFeed
from andon.settings.resolution import Settings


@pytest.mark.parametrize(
    ("received_after", "at", "shown"),
    [
        (-1.0, 999.0, "first"),  # it is from before the places were asked for
        (0.1, 999.9, "first"),
        (1.0, 1001.0, "feed"),
        (OVERTAKEN_SECONDS + 1.0, 1006.0, "feed"),
        (OVERTAKEN_SECONDS + 1.0, 400.0, "feed"),  # the clock was set back meanwhile
    ],
)
def test_the_later_one_is_shown_whatever_the_clock_is_set_to(
    received_after: float, at: float, shown: str
) -> None:
    now = [50.0]
    sampler = SimpleNamespace(
        ask_places=lambda: None, once=lambda with_host: Snapshot("first", 1000.0)
    )
    feed: Any = SimpleNamespace(
        latest=lambda: Snapshot("feed", at), age_seconds=lambda: now[0] - 50.0 - received_after
    )
    placed = PlacedFeed(cast("Any", sampler), feed, lambda: now[0])
    placed.latest()
    now[0] = 60.0
    assert placed.latest().node == shown


def test_after_the_clock_was_set_back_the_past_begins_anew() -> None:
    bus = Bus()
    feed = SnapshotFeed(bus.subscribe(0.05, False, 64), Settings(), lambda: None, past_snapshots=9)
    for number, at in enumerate((1000.0, 1001.0, 400.0, 401.0)):
        bus.publish(Snapshot("n", at), float(number))
    feed.close()
    assert [one.at for one in feed.past()] == [400.0, 401.0]
