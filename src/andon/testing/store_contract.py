"""What every store must keep: a suite for pytest, also for stores of other packages.

class TestMyStore(StoreContract):
    @pytest.fixture
    def reopen(self, tmp_path):
        return lambda: MyStore(tmp_path, RETENTION)
"""

from collections.abc import Callable
from typing import Protocol

from andon.core.history.intervals import UsageInterval
from andon.core.history.series import HOST
from andon.core.history.tiers import DAY_SECONDS, Retention
from andon.model.device import Device
from andon.ports import Directory, Store
from andon.testing.history import AT, GPU, tick, upkeep

RETENTION = Retention(30 * DAY_SECONDS, 60 * DAY_SECONDS, 365 * DAY_SECONDS)
"""What the suite expects a store to keep."""


class ListedStore(Store, Directory, Protocol):
    """A store that can also list its contents."""


OpenStore = Callable[[], ListedStore]


class StoreContract:
    """Subclass it with a fixture `reopen`: opens the store, and again what another start finds."""

    def test_an_empty_store_answers_with_gaps(self, reopen: OpenStore) -> None:
        store = reopen()
        found = store.history(GPU, "utilization_percent", AT, AT + 10, 5)
        assert [bucket.count for bucket in found] == [0] * 5
        assert [bucket.mean for bucket in found] == [None] * 5
        assert list(store.usage(None, 0, AT)) == []
        assert list(store.devices()) == []

    def test_what_is_written_is_there(self, reopen: OpenStore) -> None:
        store = reopen()
        store.write([tick(AT + n, 10 * n, 100.25) for n in range(4)])
        found = store.history(GPU, "utilization_percent", AT, AT + 4, 2)
        assert [(b.min, b.mean, b.max, b.count) for b in found] == [(0, 5, 10, 2), (20, 25, 30, 2)]
        assert [(b.since, b.until) for b in found] == [(AT, AT + 2), (AT + 2, AT + 4)]
        assert store.history(GPU, "power_watts", AT, AT + 4, 1)[0].mean == 100.25
        assert store.history(HOST, "cpu_percent", AT, AT + 4, 1)[0].max == 12.5

    def test_what_is_written_twice_is_there_once(self, reopen: OpenStore) -> None:
        store = reopen()
        ticks = [tick(AT + n, n) for n in range(3)]
        store.write(ticks)
        store.write(ticks)
        assert store.history(GPU, "utilization_percent", AT, AT + 3, 1)[0].count == 3

    def test_a_late_tick_finds_its_place(self, reopen: OpenStore) -> None:
        store = reopen()
        store.write([tick(AT + n, n) for n in (0, 2)])
        upkeep(store, AT + 3600)
        store.write([tick(AT + 1, 1)])
        upkeep(store, AT + 3600)
        found = store.history(GPU, "utilization_percent", AT, AT + 3, 3)
        assert [bucket.mean for bucket in found] == [0, 1, 2]

    def test_a_gap_stays_a_gap_before_and_after_upkeep(self, reopen: OpenStore) -> None:
        store = reopen()
        store.write([tick(AT + n, 50) for n in (*range(300), *range(900, 1200))])
        for _ in range(2):
            found = store.history(GPU, "utilization_percent", AT, AT + 1200, 4)
            assert [bucket.count for bucket in found] == [300, 0, 0, 300]
            upkeep(store, AT + DAY_SECONDS)

    def test_upkeep_changes_no_answer(self, reopen: OpenStore) -> None:
        store = reopen()
        store.write([tick(AT + 7 * n, n % 101, n / 8) for n in range(3000)])
        asked = [(AT, AT + 21_000, n) for n in (1, 7, 35)] + [(AT + 60, AT + 120, 60)]
        before = [store.history(GPU, "power_watts", *span) for span in asked]
        for hours in (1, 3, 5, 9, 24):
            upkeep(store, AT + hours * 3600)
            assert [store.history(GPU, "power_watts", *span) for span in asked] == before

    def test_years_without_a_reading_do_not_hold_up_the_upkeep(self, reopen: OpenStore) -> None:
        store = reopen()
        store.write([tick(30.0 + n, 3) for n in range(5)])  # a clock that was not set yet
        store.write([tick(AT + n, 7) for n in range(5)])
        upkeep(store, AT + DAY_SECONDS)
        found = store.history(GPU, "utilization_percent", AT, AT + 60, 1)
        assert (found[0].count, found[0].mean) == (5, 7)
        store.write([tick(AT + DAY_SECONDS + n, 9) for n in range(5)])
        upkeep(store, AT + 2 * DAY_SECONDS)
        found = store.history(GPU, "utilization_percent", AT, AT + 2 * DAY_SECONDS, 2)
        assert [bucket.mean for bucket in found] == [7, 9]

    def test_upkeep_that_has_nothing_to_do_says_so(self, reopen: OpenStore) -> None:
        store = reopen()
        store.write([tick(AT + n, 1) for n in range(30)])
        upkeep(store, AT + DAY_SECONDS)
        assert store.maintain(AT + DAY_SECONDS).idle

    def test_a_new_start_finds_what_was_kept(self, reopen: OpenStore) -> None:
        first = reopen()
        device = Device(GPU, 3, "nvidia", "H200")
        first.write([tick(AT, 42)], [UsageInterval(GPU, 7, 1.0, "ada", "python", AT, AT)], [device])
        first.close()
        second = reopen()
        assert second.history(GPU, "utilization_percent", AT, AT + 1, 1)[0].mean == 42
        assert [use.user for use in second.usage(GPU, AT, AT + 1)] == ["ada"]
        assert [(d.index, d.name) for d in second.devices()] == [(3, "H200")]
        assert "utilization_percent" in second.metrics(GPU)

    def test_an_interval_that_grows_is_one(self, reopen: OpenStore) -> None:
        store = reopen()
        for last, peak in ((0, 10), (5, 30), (10, 30)):
            store.write([], [UsageInterval(GPU, 7, 1.0, "ada", "python", AT, AT + last, peak)])
        assert list(store.usage(GPU, AT, AT + 60)) == [
            UsageInterval(GPU, 7, 1.0, "ada", "python", AT, AT + 10, 30)
        ]

    def test_intervals_around_a_restart_are_one(self, reopen: OpenStore) -> None:
        store = reopen()
        store.write([], [UsageInterval(GPU, 7, 1.0, "ada", "python", AT, AT + 100, 10)])
        store.write([], [UsageInterval(GPU, 7, 1.0, "ada", "python", AT + 130, AT + 200, 5)])
        store.write([], [UsageInterval(GPU, 7, 1.0, "ada", "python", AT + 900, AT + 901, 5)])
        found = [(u.first, u.last, u.peak_memory_bytes) for u in store.usage(GPU, AT, AT + 1000)]
        assert found == [(AT, AT + 200, 10), (AT + 900, AT + 901, 5)]

    def test_who_is_answered_for_a_span_and_a_device(self, reopen: OpenStore) -> None:
        store = reopen()
        uses = [
            UsageInterval(GPU, 1, None, "ada", None, AT, AT + 10),
            UsageInterval(GPU, 2, None, "bob", None, AT + 100, AT + 200),
            UsageInterval("GPU-2", 3, None, "eve", None, AT, AT + 200),
        ]
        store.write([], uses)
        assert [u.user for u in store.usage(GPU, AT + 50, AT + 150)] == ["bob"]
        assert [u.user for u in store.usage(None, AT, AT + 90)] == ["ada", "eve"]
        assert store.usage(GPU, AT, AT + 1)[0].started is None

    def test_it_may_be_closed_twice(self, reopen: OpenStore) -> None:
        store = reopen()
        store.close()
        store.close()

    def test_it_says_how_large_it_is(self, reopen: OpenStore) -> None:
        store = reopen()
        store.write([tick(AT + n, n) for n in range(100)])
        assert store.size_bytes() > 0
