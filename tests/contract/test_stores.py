"""What every store must keep: SQLite's file and the one in memory."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from andon.core.history.intervals import UsageInterval
from andon.core.history.series import HOST
from andon.core.history.tiers import DAY_SECONDS, Retention
from andon.model.device import Device
from andon.ports import Directory, Store
from andon.stores.memory import MemoryStore
from andon.stores.sqlite import SqliteStore
from tests.support.history_parts import AT, GPU, tick, upkeep


class Kept(Store, Directory, Protocol):
    """A store that also says what it holds, as both do."""


Reopen = Callable[[], Kept]


@pytest.fixture(params=["sqlite", "memory"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reopen]:
    """Makes the store; made again, it is what another start of andon finds."""
    made: list[Kept] = []

    def make() -> Kept:
        if request.param == "memory" and made:
            return made[0]
        if request.param == "memory":
            made.append(MemoryStore(RETENTION))
        else:
            made.append(SqliteStore(tmp_path / "state" / "history.db", RETENTION))
        return made[-1]

    yield make
    for store in made:
        store.close()


RETENTION = Retention(30 * DAY_SECONDS, 60 * DAY_SECONDS, 365 * DAY_SECONDS)


@pytest.fixture
def store(reopen: Reopen) -> Kept:
    return reopen()


def test_an_empty_store_answers_with_gaps(store: Kept) -> None:
    found = store.history(GPU, "utilization_percent", AT, AT + 10, 5)
    assert [bucket.count for bucket in found] == [0] * 5
    assert [bucket.mean for bucket in found] == [None] * 5
    assert list(store.usage(None, 0, AT)) == []
    assert list(store.devices()) == []


def test_what_is_written_is_there(store: Kept) -> None:
    store.write([tick(AT + n, 10 * n, 100.25) for n in range(4)])
    found = store.history(GPU, "utilization_percent", AT, AT + 4, 2)
    assert [(b.min, b.mean, b.max, b.count) for b in found] == [(0, 5, 10, 2), (20, 25, 30, 2)]
    assert [(b.since, b.until) for b in found] == [(AT, AT + 2), (AT + 2, AT + 4)]
    assert store.history(GPU, "power_watts", AT, AT + 4, 1)[0].mean == 100.25
    assert store.history(HOST, "cpu_percent", AT, AT + 4, 1)[0].max == 12.5


def test_what_is_written_twice_is_there_once(store: Kept) -> None:
    ticks = [tick(AT + n, n) for n in range(3)]
    store.write(ticks)
    store.write(ticks)
    assert store.history(GPU, "utilization_percent", AT, AT + 3, 1)[0].count == 3


def test_a_late_tick_finds_its_place(store: Kept) -> None:
    store.write([tick(AT + n, n) for n in (0, 2)])
    upkeep(store, AT + 3600)
    store.write([tick(AT + 1, 1)])
    upkeep(store, AT + 3600)
    found = store.history(GPU, "utilization_percent", AT, AT + 3, 3)
    assert [bucket.mean for bucket in found] == [0, 1, 2]


def test_a_gap_stays_a_gap_before_and_after_upkeep(store: Kept) -> None:
    store.write([tick(AT + n, 50) for n in (*range(300), *range(900, 1200))])
    for _ in range(2):
        found = store.history(GPU, "utilization_percent", AT, AT + 1200, 4)
        assert [bucket.count for bucket in found] == [300, 0, 0, 300]
        upkeep(store, AT + DAY_SECONDS)


def test_upkeep_changes_no_answer(store: Kept) -> None:
    store.write([tick(AT + 7 * n, n % 101, n / 8) for n in range(3000)])
    asked = [(AT, AT + 21_000, n) for n in (1, 7, 35)] + [(AT + 60, AT + 120, 60)]
    before = [store.history(GPU, "power_watts", *span) for span in asked]
    for hours in (1, 3, 5, 9, 24):
        upkeep(store, AT + hours * 3600)
        assert [store.history(GPU, "power_watts", *span) for span in asked] == before


def test_years_without_a_reading_do_not_hold_up_the_upkeep(store: Kept) -> None:
    store.write([tick(30.0 + n, 3) for n in range(5)])  # a clock that was not set yet
    store.write([tick(AT + n, 7) for n in range(5)])
    upkeep(store, AT + DAY_SECONDS)
    found = store.history(GPU, "utilization_percent", AT, AT + 60, 1)
    assert (found[0].count, found[0].mean) == (5, 7)
    store.write([tick(AT + DAY_SECONDS + n, 9) for n in range(5)])
    upkeep(store, AT + 2 * DAY_SECONDS)
    found = store.history(GPU, "utilization_percent", AT, AT + 2 * DAY_SECONDS, 2)
    assert [bucket.mean for bucket in found] == [7, 9]


def test_upkeep_that_has_nothing_to_do_says_so(store: Kept) -> None:
    store.write([tick(AT + n, 1) for n in range(30)])
    upkeep(store, AT + DAY_SECONDS)
    assert store.maintain(AT + DAY_SECONDS).idle


def test_a_new_start_finds_what_was_kept(reopen: Reopen) -> None:
    first = reopen()
    device = Device(GPU, 3, "nvidia", "H200")
    first.write([tick(AT, 42)], [UsageInterval(GPU, 7, 1.0, "ada", "python", AT, AT)], [device])
    first.close()
    second = reopen()
    assert second.history(GPU, "utilization_percent", AT, AT + 1, 1)[0].mean == 42
    assert [use.user for use in second.usage(GPU, AT, AT + 1)] == ["ada"]
    assert [(d.index, d.name) for d in second.devices()] == [(3, "H200")]
    assert "utilization_percent" in second.metrics(GPU)


def test_an_interval_that_grows_is_one(store: Kept) -> None:
    for last, peak in ((0, 10), (5, 30), (10, 30)):
        store.write([], [UsageInterval(GPU, 7, 1.0, "ada", "python", AT, AT + last, peak)])
    assert list(store.usage(GPU, AT, AT + 60)) == [
        UsageInterval(GPU, 7, 1.0, "ada", "python", AT, AT + 10, 30)
    ]


def test_intervals_around_a_restart_are_one(store: Kept) -> None:
    store.write([], [UsageInterval(GPU, 7, 1.0, "ada", "python", AT, AT + 100, 10)])
    store.write([], [UsageInterval(GPU, 7, 1.0, "ada", "python", AT + 130, AT + 200, 5)])
    store.write([], [UsageInterval(GPU, 7, 1.0, "ada", "python", AT + 900, AT + 901, 5)])
    found = [(u.first, u.last, u.peak_memory_bytes) for u in store.usage(GPU, AT, AT + 1000)]
    assert found == [(AT, AT + 200, 10), (AT + 900, AT + 901, 5)]


def test_who_is_answered_for_a_span_and_a_device(store: Kept) -> None:
    uses = [
        UsageInterval(GPU, 1, None, "ada", None, AT, AT + 10),
        UsageInterval(GPU, 2, None, "bob", None, AT + 100, AT + 200),
        UsageInterval("GPU-2", 3, None, "eve", None, AT, AT + 200),
    ]
    store.write([], uses)
    assert [u.user for u in store.usage(GPU, AT + 50, AT + 150)] == ["bob"]
    assert [u.user for u in store.usage(None, AT, AT + 90)] == ["ada", "eve"]
    assert store.usage(GPU, AT, AT + 1)[0].started is None


def test_it_may_be_closed_twice(store: Kept) -> None:
    store.close()
    store.close()


def test_it_says_how_large_it_is(store: Kept) -> None:
    store.write([tick(AT + n, n) for n in range(100)])
    assert store.size_bytes() > 0


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    points=st.dictionaries(st.integers(0, 4000), st.integers(0, 100), max_size=60),
    span=st.tuples(st.integers(-50, 4000), st.integers(1, 4000), st.integers(1, 50)),
)
def test_sqlite_answers_as_memory_does(
    tmp_path_factory: pytest.TempPathFactory,
    points: dict[int, int],
    span: tuple[int, int, int],
) -> None:
    plain, file = MemoryStore(), SqliteStore(tmp_path_factory.mktemp("s") / "h.db")
    try:
        ticks = [tick(AT + at, value) for at, value in points.items()]
        for store in (plain, file):
            store.write(ticks[::2])
            upkeep(store, AT + 2000)
            store.write(ticks[1::2])
        since, length, count = span
        asked = (GPU, "utilization_percent", AT + since, AT + since + length, count)
        assert plain.history(*asked) == file.history(*asked)
    finally:
        file.close()


def test_memory_lets_go_of_the_oldest_when_it_is_full() -> None:
    store = MemoryStore(most_bytes=1600)
    for second in range(500):
        store.write([tick(AT + second, 50)])
    assert store.size_bytes() <= 1600
    latest = store.history(GPU, "utilization_percent", AT, AT + 500, 1)[0]
    assert 0 < latest.count < 500
    assert store.history(GPU, "utilization_percent", AT + 499, AT + 500, 1)[0].count == 1
