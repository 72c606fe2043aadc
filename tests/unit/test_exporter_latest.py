"""The last snapshot of a session is what a scrape gets, however often it asks."""

import pytest

from andon.engine.sampling.bus import Bus
from andon.engine.sampling.sampler import Costs
from andon.errors import Unavailable
from andon.exporter import Exposition
from andon.exporter.latest import Latest
from tests.support.exposition import parse
from tests.support.snapshots import farm, ticks


def test_before_the_first_look_there_is_nothing_to_serve() -> None:
    latest = Latest(Bus().subscribe(1.0, watching=False, size=1), Costs)
    with pytest.raises(Unavailable):
        latest.snapshot(timeout_seconds=0)
    latest.close()
    with pytest.raises(Unavailable):
        latest.snapshot()


def test_a_scrape_waits_for_the_first_look() -> None:
    bus = Bus()
    latest = Latest(bus.subscribe(1.0, watching=False, size=1), Costs)
    bus.publish(farm(), 1.0)
    assert latest.snapshot() == farm()
    latest.close()


def test_the_last_one_stays_when_the_session_ends() -> None:
    bus = Bus()
    shown = ticks(3)
    latest = Latest(bus.subscribe(1.0, watching=False, size=8), Costs)
    for number, snapshot in enumerate(shown):
        bus.publish(snapshot, float(number))
    latest.close()
    assert latest.snapshot() is shown[-1]
    found = parse(latest.text(Exposition(), None))
    assert list(found["andon_snapshot_timestamp_seconds"].series.values()) == [shown[-1].at]
    assert latest.dropped == 0
