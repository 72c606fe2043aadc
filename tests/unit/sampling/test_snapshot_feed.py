"""The last snapshot of a session is what everyone gets, however often they ask."""

import pytest

from andon.errors import Unavailable
from andon.exporter import Exposition
from andon.exporter.scrape import FIRST_SECONDS, scraped
from andon.model.device import Snapshot
from andon.sampling.bus import Bus
from andon.sampling.sampler import Costs
from andon.sampling.snapshot_feed import SnapshotFeed
from andon.settings.resolution import Settings
from tests.support.exposition import parse
from tests.support.snapshots import farm, ticks


def feed_of(bus: Bus, size: int = 8, past_snapshots: int = 1) -> SnapshotFeed:
    session = bus.subscribe(1.0, watching=False, size=size)
    return SnapshotFeed(session, Settings(), Costs, past_snapshots=past_snapshots)


def test_before_the_first_sample_there_is_nothing_to_serve() -> None:
    feed = feed_of(Bus())
    assert not feed.wait_for_first(0)
    with pytest.raises(Unavailable, match="no reading yet"):
        scraped(feed, Exposition())
    feed.close()
    assert not feed.wait_for_first(3600)
    with pytest.raises(Unavailable, match="no reading yet"):
        scraped(feed, Exposition())
    assert not feed.runs


def test_a_scrape_waits_for_the_first_sample() -> None:
    bus = Bus()
    feed = feed_of(bus, size=1)
    bus.publish(farm(), 1.0)
    assert feed.wait_for_first(FIRST_SECONDS)
    assert scraped(feed, Exposition())
    assert feed.last == farm()
    feed.close()


def test_the_last_one_stays_when_the_session_ends() -> None:
    bus = Bus()
    shown = ticks(3)
    feed = feed_of(bus)
    for number, snapshot in enumerate(shown):
        bus.publish(snapshot, float(number))
    feed.close()
    assert feed.last is shown[-1]
    found = parse(scraped(feed, Exposition()))
    assert list(found["andon_snapshot_timestamp_seconds"].series.values()) == [shown[-1].at]
    assert feed.dropped == 0


def test_only_those_who_watch_make_readings_expensive() -> None:
    bus = Bus()
    feed = feed_of(bus)
    with pytest.raises(Unavailable):
        feed.newest()
    bus.publish(farm(), 1.0)
    assert feed.newest() is feed.last
    assert not bus.is_watched
    assert feed.latest() is feed.last
    assert bus.is_watched
    feed.close()


def test_as_many_as_wanted_are_kept_and_every_one_is_heard() -> None:
    bus, heard = Bus(), list[Snapshot]()
    shown = ticks(5)
    feed = feed_of(bus, past_snapshots=3)
    leave = feed.listen(heard.append)
    for number, snapshot in enumerate(shown):
        bus.publish(snapshot, float(number))
    feed.close()
    assert feed.past() == list(shown[-3:])
    assert heard == list(shown)
    leave()
