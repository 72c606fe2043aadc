"""The readings of a node in memory: what everyone gets, however often they ask."""

import pytest

from andon.errors import Unavailable
from andon.exporter import Exposition
from andon.exporter.scrape import FIRST_SECONDS, scraped
from andon.model.device import Snapshot
from andon.node.watched.live import OVERTAKEN_SECONDS, WatchedLive
from tests.support.exposition import parse
from tests.support.snapshots import farm, ticks
from tests.support.web_parts import Hand


def test_before_the_first_sample_there_is_nothing_to_serve() -> None:
    live = WatchedLive(Hand(), 1.0)
    assert not live.wait_for_first(0)
    with pytest.raises(Unavailable, match="no reading yet"):
        scraped(live, Exposition())
    live.close()
    assert not live.wait_for_first(3600)
    with pytest.raises(Unavailable, match="no reading yet"):
        scraped(live, Exposition())
    assert not live.runs


def test_a_scrape_waits_for_the_first_sample() -> None:
    sampler = Hand()
    live = WatchedLive(sampler, 1.0)
    sampler.bus.publish(farm(), 1.0)
    assert live.wait_for_first(FIRST_SECONDS)
    assert scraped(live, Exposition())
    assert live.last == farm()
    live.close()


def test_the_last_one_stays_when_the_session_ends() -> None:
    shown = ticks(3)
    live = WatchedLive(Hand(*shown), 1.0)
    live.close()
    assert live.last is shown[-1]
    found = parse(scraped(live, Exposition()))
    assert list(found["andon_snapshot_timestamp_seconds"].series.values()) == [shown[-1].at]
    assert live.dropped == 0


def test_only_those_who_watch_make_readings_expensive() -> None:
    sampler = Hand()
    live = WatchedLive(sampler, 1.0)
    with pytest.raises(Unavailable):
        live.newest()
    sampler.bus.publish(farm(), 1.0)
    assert live.newest() is live.last
    assert not sampler.bus.is_watched
    assert live.latest() is live.last
    assert sampler.bus.is_watched
    live.close()


def test_as_many_as_wanted_are_kept_and_every_one_is_heard() -> None:
    sampler, heard = Hand(), list[Snapshot]()
    shown = ticks(5)
    live = WatchedLive(sampler, 1.0, past_snapshots=3)
    leave = live.listen(heard.append)
    for number, snapshot in enumerate(shown):
        sampler.bus.publish(snapshot, float(number))
    live.close()
    assert live.minutes() == list(shown[-3:])
    assert heard == list(shown)
    leave()


def test_after_the_clock_was_set_back_the_minutes_begin_anew() -> None:
    given = [Snapshot("n", at) for at in (1000.0, 1001.0, 400.0, 401.0)]
    live = WatchedLive(Hand(*given), 0.05, past_snapshots=9)
    live.close()
    assert [one.at for one in live.minutes()] == [400.0, 401.0]


@pytest.mark.parametrize(
    ("received_after", "at", "shown"),
    [
        (-1.0, 999.0, "first"),  # it is from before the places were asked for
        (0.1, 999.9, "first"),
        (1.0, 1001.0, "later"),
        (OVERTAKEN_SECONDS + 1.0, 1006.0, "later"),
        (OVERTAKEN_SECONDS + 1.0, 400.0, "later"),  # the clock was set back meanwhile
    ],
)
def test_of_those_with_places_the_later_is_shown_whatever_the_clock_is_set_to(
    received_after: float, at: float, shown: str
) -> None:
    now = [50.0]
    sampler = Hand(Snapshot("first", 1000.0))
    live = WatchedLive(sampler, 0.001, clock=lambda: now[0])
    assert live.placed().node == "first"
    now[0] = 50.0 + received_after
    sampler.bus.publish(Snapshot("later", at), 1e9)
    now[0] = 60.0
    assert live.placed().node == shown
    live.close()
