"""Sessions of their own interval that share ticks, and cannot hold each other up."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.model.device import Snapshot
from andon.model.event import Event, EventKind
from andon.sampling.bus import MOST_EVENTS, Bus
from andon.sampling.rules import timing


def at(time: float) -> Snapshot:
    return Snapshot("n", time)


@pytest.mark.parametrize(
    ("now", "interval", "due"),
    [(0.0, 1.0, 1.0), (0.4, 1.0, 1.0), (1.0, 1.0, 2.0), (7.3, 5.0, 10.0)],
)
def test_ticks_lie_on_a_grid(now: float, interval: float, due: float) -> None:
    assert timing.next_due(now, interval) == due


@given(st.floats(0, 1e6), st.floats(0.1, 3600))
def test_the_next_tick_is_ahead_and_within_one_interval(now: float, interval: float) -> None:
    due = timing.next_due(now, interval)
    assert now < due <= now + interval * 1.001 + 1e-3


def test_sessions_of_multiples_share_their_ticks() -> None:
    assert timing.wake_at(3.5, [1.0, 2.0, 5.0]) == 4.0
    assert timing.next_due(3.5, 2.0) == 4.0


def test_nobody_means_no_tick() -> None:
    assert Bus().wake_at(5.0) is None


def test_a_new_session_is_served_at_once() -> None:
    bus = Bus()
    bus.subscribe(10.0, False, 8)
    assert bus.wake_at(3.0) == 3.0


def test_each_session_gets_its_own_pace() -> None:
    bus = Bus()
    fast, slow = bus.subscribe(1.0, False, 8), bus.subscribe(2.0, False, 8)
    for now in (0.0, 1.0, 2.0, 3.0, 4.0):
        bus.publish(at(now), now)
    fast.close()
    slow.close()
    assert [s.at for s in fast] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert [s.at for s in slow] == [0.0, 2.0, 4.0]


def test_a_session_that_does_not_read_loses_the_oldest_and_counts_them() -> None:
    bus = Bus()
    lazy, eager = bus.subscribe(1.0, False, 2), bus.subscribe(1.0, False, 8)
    for now in range(5):
        bus.publish(at(now), float(now))
    assert lazy.dropped == 3
    assert eager.dropped == 0
    first = lazy.get()
    assert first is not None
    assert first.at == 3


def test_ticks_that_never_came_are_counted() -> None:
    bus = Bus()
    session = bus.subscribe(1.0, False, 8)
    bus.publish(at(0), 0.0)
    bus.publish(at(4), 4.0)
    assert session.missed == 3
    assert bus.missed() == 3


def test_closing_ends_a_reader_that_waits() -> None:
    session = Bus().subscribe(1.0, False, 8)
    ended = threading.Event()

    def read_all() -> None:
        list(session)
        ended.set()

    thread = threading.Thread(target=read_all)
    thread.start()
    session.close()
    assert ended.wait(60)
    thread.join()


def test_closing_twice_leaves_once() -> None:
    left: list[int] = []
    session = Bus().subscribe(1.0, False, 8)
    session.on_close(lambda: left.append(1))
    session.close()
    session.close()
    assert left == [1]


def test_someone_who_watches_is_noticed_and_forgotten() -> None:
    bus = Bus()
    bus.subscribe(1.0, False, 8)
    assert not bus.is_watched
    with bus.subscribe(1.0, True, 8):
        assert bus.is_watched
    assert not bus.is_watched


def test_a_timeout_gives_nothing() -> None:
    assert Bus().subscribe(1.0, False, 8).get(timeout_seconds=0.0) is None


def xid(code: int) -> Event:
    return Event(EventKind.XID, "GPU-1", 0.0, code)


def test_an_event_waits_for_the_session_that_is_not_due() -> None:
    bus = Bus()
    fast, slow = bus.subscribe(1.0, False, 8), bus.subscribe(3.0, False, 8)
    for now in range(7):
        bus.add_events([xid(now)])
        bus.publish(at(now), now)
    fast.close()
    slow.close()
    assert [[e.code for e in s.events] for s in fast] == [[n] for n in range(7)]
    assert [[e.code for e in s.events] for s in slow] == [[0], [1, 2, 3], [4, 5, 6]]


def test_an_event_outlives_the_snapshot_that_a_slow_reader_never_took() -> None:
    bus = Bus()
    lazy = bus.subscribe(1.0, False, 1)
    for now in range(4):
        bus.add_events([xid(now)])
        bus.publish(at(now), now)
    lazy.close()
    assert [(s.at, [e.code for e in s.events]) for s in lazy] == [(3.0, [0, 1, 2, 3])]


def test_a_session_is_not_told_what_happened_before_it() -> None:
    bus = Bus()
    bus.add_events([xid(79)])
    late = bus.subscribe(1.0, False, 8)
    bus.publish(replace(at(0.0), events=(xid(79),)), 0.0)
    late.close()
    assert [s.events for s in late] == [()]


def test_a_flood_of_events_is_bounded_and_the_newest_stay() -> None:
    bus = Bus()
    session = bus.subscribe(1.0, False, 1)
    bus.add_events([xid(code) for code in range(2 * MOST_EVENTS)])
    bus.publish(at(0.0), 0.0)
    session.close()
    (snapshot,) = session
    assert [e.code for e in snapshot.events] == [*range(MOST_EVENTS, 2 * MOST_EVENTS)]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40),
    st.sampled_from([1.0, 2.0, 5.0]),
    st.integers(1, 4),
)
def test_no_event_is_lost_or_told_twice(
    ticks: list[tuple[int, bool]], interval: float, size: int
) -> None:
    bus = Bus()
    session = bus.subscribe(interval, False, size)
    heard: list[int | None] = []
    said = 0
    for now, (count, reads) in enumerate(ticks):
        bus.add_events([xid(said + n) for n in range(count)])
        said += count
        bus.publish(at(now), now)
        if reads and (snapshot := session.get(0)) is not None:
            heard += [event.code for event in snapshot.events]
    bus.publish(at(1000.0), 1000.0)
    session.close()
    heard += [event.code for snapshot in session for event in snapshot.events]
    assert sorted(code for code in heard if code is not None) == list(range(said))


def test_a_session_that_has_just_seen_one_is_due_in_its_next_slot() -> None:
    bus = Bus()
    session = bus.subscribe(2.0, False, 8, seen_at=100.5)
    assert [session.due(now) for now in (100.6, 101.9, 102.0)] == [False, False, True]
    assert bus.wake_at(100.6) == 102.0


def test_a_session_goes_on_at_another_interval_without_a_snapshot_missed_or_twice() -> None:
    bus = Bus()
    session = bus.subscribe(1.0, False, 8)
    shown = [at(float(number)) for number in range(4)]
    bus.publish(shown[0], 100.0)
    session.pace(5.0, 100.2)
    for number, now in enumerate((101.0, 104.9, 105.0), start=1):
        bus.publish(shown[number], now)
    assert [session.get(0), session.get(0), session.get(0)] == [shown[0], shown[3], None]
    assert (session.missed, session.dropped) == (0, 0)
