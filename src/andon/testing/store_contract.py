"""The contract of every store, as a pytest suite that other packages can use too.

class TestMyStore(StoreContract):
    @pytest.fixture
    def reopen(self, tmp_path):
        return lambda node="node-1": MyStore(tmp_path, node)
"""

from typing import Protocol

from andon.history.rules.codec import pack_points
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import HOST, NodeReadings, tick_of
from andon.history.rules.throttle_shares import throttle_shares
from andon.history.rules.tiers import DAY_SECONDS, Extent, Retention, Tier
from andon.history.writer import Maintainer
from andon.model.device import Device, DeviceStatus, Host, Sample, Snapshot, State
from andon.model.throttling import HW_SLOWDOWN, IDLE
from andon.ports import Store

# Readings for tests of a history, and upkeep until there is nothing left to do.

AT = 1_790_000_000.0 - 1_790_000_000.0 % 864_000  # where windows of every tier begin
GPU = "GPU-1"


def tick(
    at: float, percent: int, watts: float = 100.0, throttle: tuple[str, ...] | None = None
) -> NodeReadings:
    sample = Sample(at, utilization_percent=percent, power_watts=watts, throttle=throttle)
    return tick_of(Snapshot("n", at, devices=(status(sample),), host=Host(cpu_percent=12.5)))


def status(sample: Sample) -> DeviceStatus:
    return DeviceStatus(Device(GPU, 0, "nvidia", "H200"), State.OK, 0.0, sample=sample)


def upkeep(store: Store, at: float, retention: Retention | None = None) -> None:
    Maintainer(store, retention or Retention()).finish(at)


RETENTION = Retention(30 * DAY_SECONDS, 60 * DAY_SECONDS, 365 * DAY_SECONDS)


class OpenStore(Protocol):
    """Opens the store, each time as after a restart."""

    def __call__(self, node: str = "node-1") -> Store: ...


def counts(store: Store, since: float, until: float, points: int) -> list[int]:
    return [b.count for b in store.history(GPU, "utilization_percent", since, until, points)]


def _slowed(at: float) -> tuple[str, ...]:
    return (HW_SLOWDOWN.name, IDLE.name) if at // 300 % 12 < 7 else ()


class StoreContract:
    """Subclass it with a fixture `reopen`: opens the store for a node, each time as after a
    restart."""

    def test_an_empty_store_answers_with_gaps(self, reopen: OpenStore) -> None:
        store = reopen()
        found = store.history(GPU, "utilization_percent", AT, AT + 10, 5)
        assert [bucket.count for bucket in found] == [0] * 5
        assert [bucket.mean for bucket in found] == [None] * 5
        assert list(store.usage(None, 0, AT)) == []
        assert list(store.devices()) == []

    def test_what_is_written_is_found(self, reopen: OpenStore) -> None:
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
        store.write([tick(AT + 21 * n, n % 101, n / 8) for n in range(1000)])
        spans = [(AT, AT + 21_000, n) for n in (1, 7, 35)] + [(AT + 60, AT + 120, 60)]
        before = [store.history(GPU, "power_watts", *span) for span in spans]
        for hours in (1, 3, 5, 9, 24):
            upkeep(store, AT + hours * 3600)
            assert [store.history(GPU, "power_watts", *span) for span in spans] == before

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

    def test_a_clock_that_was_far_ahead_does_not_hold_up_the_upkeep(
        self, reopen: OpenStore
    ) -> None:
        """For an hour it was 25 days later; a gap of five hours follows, and a day like others."""
        store, ahead = reopen(), AT + 25 * DAY_SECONDS + 300
        store.write([tick(AT + 600 * n, 1) for n in range(18)])
        store.write([tick(ahead + 600 * n, 2) for n in range(6)])
        upkeep(store, ahead + DAY_SECONDS, RETENTION)
        store.write([tick(AT + 600 * n, 3) for n in range(8 * 6, 24 * 6)])
        for days in (1, 2, 35):  # while it is recorded, and when only minutes are left
            upkeep(store, AT + days * DAY_SECONDS, RETENTION)
            found = counts(store, AT, AT + DAY_SECONDS, 24)
            assert found == [6] * 3 + [0] * 5 + [6] * 16, f"{days} days"
        ends = {t: e.until_ms / 1000 for t, e in store.contents().extents.items()}
        assert ends[Tier.MINUTE] <= AT + 35 * DAY_SECONDS

    def test_a_clock_that_was_far_behind_costs_nothing_that_was_kept(
        self, reopen: OpenStore
    ) -> None:
        store, end = reopen(), AT + 25 * DAY_SECONDS + 4800
        limit = Retention(DAY_SECONDS, 11 * DAY_SECONDS, 365 * DAY_SECONDS)
        store.write([tick(AT + 14_400 * n + 600, 1) for n in range(151)])
        upkeep(store, end, limit)
        spans = [(AT, end, 25), (end - 10 * DAY_SECONDS, end, 960), (end - 43_200, end, 1440)]
        before = [counts(store, *span) for span in spans]
        store.write([tick(30.0 + 300 * n, 3) for n in range(120)])
        upkeep(store, 15 * DAY_SECONDS, limit)
        for seconds in (60, 7200):
            upkeep(store, end + seconds, limit)
            assert [counts(store, *span) for span in spans] == before
        late = store.history(GPU, "utilization_percent", end - 300 * DAY_SECONDS, end, 1)
        assert late[0].count == 151, "nothing is lost, and nothing counted twice"

    def test_upkeep_that_has_nothing_to_do_says_so(self, reopen: OpenStore) -> None:
        store = reopen()
        store.write([tick(AT + n, 1) for n in range(30)])
        upkeep(store, AT + DAY_SECONDS)
        assert Maintainer(store, Retention()).step(AT + DAY_SECONDS).idle

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

    def test_each_tier_answers_for_as_long_as_it_is_kept(self, reopen: OpenStore) -> None:
        store = reopen()
        hourly = (*range(48), *range(48, 264, 12), *range(264, 288))
        store.write([tick(AT + 3600 * n + 1800, 1) for n in hourly])
        end = AT + 12 * DAY_SECONDS
        upkeep(store, end, Retention(DAY_SECONDS, 11 * DAY_SECONDS, 365 * DAY_SECONDS))
        held = store.contents()
        assert held.unpacked == ()
        hours = {t: (end * 1000 - e.since_ms) / 3_600_000 for t, e in held.extents.items()}
        assert hours == {Tier.RAW: 24, Tier.MINUTE: 264, Tier.HOUR: 288}
        late, early = [0, 1] * 24, [1, 0] * 24
        assert counts(store, end - DAY_SECONDS, end, 48) == late, "every reading"
        assert counts(store, AT + DAY_SECONDS, AT + 2 * DAY_SECONDS, 48) == late, "minutes"
        assert counts(store, AT, AT + DAY_SECONDS, 48) == early, "an hour's row is at its start"

    def test_a_share_of_time_is_a_share_at_every_range(self, reopen: OpenStore) -> None:
        """Slowed down in 7 of the 12 readings of each hour: 58 % of an hour and of five days."""
        store, end = reopen(), AT + 5 * DAY_SECONDS
        times = [AT + 300 * n for n in range(1440)]
        store.write([tick(at, 50, throttle=_slowed(at)) for at in times])
        for _ in range(2):
            for hours, points in ((1, 1), (24, 24), (24, 1), (72, 36), (120, 60), (120, 1)):
                span = (end - 3600 * hours, end, points)
                read, found = throttle_shares(store, GPU, *span)
                assert read == [12 * hours / points] * points, span
                assert found == {HW_SLOWDOWN.name: [round(7 / 12, 4)] * points}, span
            upkeep(store, end, Retention(DAY_SECONDS, 3 * DAY_SECONDS))

    def test_the_size_limit_shortens_the_finest_tier_first(self, reopen: OpenStore) -> None:
        store = reopen()
        begin, noise = int(AT * 1000), list(range(0, 600_000, 1000))
        for number in range(6 * 24):
            body = pack_points(noise, [hash((number, n)) % 4096 for n in range(600)])
            block = (GPU, "power_watts", Tier.RAW, begin + 600_000 * number, body)
            store.load([], [block])
        now, limit = AT + DAY_SECONDS, Retention(most_bytes=150_000)
        upkeep(store, now, limit)
        assert store.contents().used_bytes <= limit.most_bytes
        newest = store.history(GPU, "power_watts", now - 3600, now, 60)
        assert all(bucket.count == 60 for bucket in newest)
        oldest = store.history(GPU, "power_watts", AT, AT + 3600, 60)
        assert all(bucket.count == 60 for bucket in oldest), "the minutes are still known"

    def test_blocks_made_elsewhere_are_read_and_rolled_up(self, reopen: OpenStore) -> None:
        store = reopen()
        body = pack_points([0, 1000, 2000], [10, 20, 30])
        device = Device(GPU, 2, "sim", "H200")
        begin = round(AT * 1000)
        blocks = [
            (GPU, "utilization_percent", Tier.RAW, begin + 600_000 * n, body) for n in range(12)
        ]
        store.load([device], blocks)
        assert store.contents().extents == {Tier.RAW: Extent(begin, begin + 7_200_000)}
        assert counts(store, AT, AT + 7200, 12) == [3] * 12
        assert [d.index for d in store.devices()] == [2]
        done = Maintainer(store, RETENTION).step(AT + 7200)
        assert (done.rolled_blocks, done.damaged_blocks) == (1, 0)
        assert store.contents().extents[Tier.MINUTE] == Extent(begin, begin + 7_200_000)

    def test_blocks_of_a_window_can_be_loaded_instead_of_its_ticks(self, reopen: OpenStore) -> None:
        store, begin = reopen(), round(AT * 1000)
        store.write([tick(AT + n, n) for n in range(600)])
        store.pack(begin)
        made = list(store.blocks(Tier.RAW, begin))
        assert {(one[2], one[3]) for one in made} == {(Tier.RAW, begin)}
        assert list(store.blocks(Tier.RAW, begin + 600_000)) == []
        answer = list(store.history(GPU, "power_watts", AT, AT + 600, 6))
        store.write([tick(AT + n, n) for n in range(0, 600, 7)])
        store.load([], made)
        assert list(store.history(GPU, "power_watts", AT, AT + 600, 6)) == answer
        assert store.contents().unpacked == ()

    def test_ticks_wait_until_their_window_has_ended(self, reopen: OpenStore) -> None:
        store = reopen()
        store.write([tick(AT + n, 1) for n in (0, 599, 600)])
        windows = sorted(store.contents().unpacked)
        assert windows == [round(AT * 1000), round(AT * 1000) + 600_000]
        upkeep(store, AT + 601)
        assert store.contents().unpacked == (windows[1],)
        assert store.contents().extents == {Tier.RAW: Extent(windows[0], windows[1])}

    def test_a_step_does_a_little_and_finishing_does_it_all(self, reopen: OpenStore) -> None:
        store = reopen()
        store.write([tick(AT + 300 * n, 1) for n in range(24 * 12)])
        maintainer, now = Maintainer(store, RETENTION), AT + DAY_SECONDS
        assert maintainer.step(now).packed_blocks < len(store.contents().unpacked)
        done = maintainer.finish(now)
        assert store.contents().unpacked == ()
        assert done.rolled_blocks == 12 * 3  # two-hour windows of three series
        assert maintainer.step(now).idle

    def test_intervals_go_with_the_coarsest_tier(self, reopen: OpenStore) -> None:
        store = reopen()
        old = UsageInterval(GPU, 1, None, "ada", None, AT, AT + 10)
        new = UsageInterval(GPU, 2, None, "bob", None, AT, AT + 10 * DAY_SECONDS)
        store.write([], [old, new])
        limit = Retention(DAY_SECONDS, DAY_SECONDS, 11 * DAY_SECONDS)
        upkeep(store, AT + 12 * DAY_SECONDS, limit)
        assert [use.user for use in store.usage(None, 0, AT + DAY_SECONDS)] == ["bob"]

    def test_compaction_changes_no_answer_and_never_grows(self, reopen: OpenStore) -> None:
        store = reopen()
        end = AT + DAY_SECONDS
        store.write([tick(AT + 300 * n, n % 7) for n in range(288)])
        upkeep(store, end)
        before, size = counts(store, AT, end, 50), store.size_bytes()
        assert store.compact(fully=True) >= 0
        assert counts(store, AT, end, 50) == before
        assert store.size_bytes() <= size

    def test_it_says_where_it_is(self, reopen: OpenStore) -> None:
        store = reopen()
        assert store.place
        assert "\n" not in store.place

    def test_nodes_of_one_database_are_separate(self, reopen: OpenStore) -> None:
        """The same device, process and times: only the node differs."""
        facts = {"node-1": (10, "ada", 0), "node-2": (90, "bob", 3)}
        for node, (percent, user, index) in facts.items():
            use = UsageInterval(GPU, 7, 1.0, user, "python", AT, AT + 60)
            ticks = [tick(AT + index + 60 * n, percent) for n in range(60)]
            reopen(node).write(ticks, [use], [Device(GPU, index, "nvidia", "H200")])

        def check(node: str) -> None:
            store, (percent, user, index) = reopen(node), facts[node]
            found = store.history(GPU, "utilization_percent", AT, AT + 3600, 1)[0]
            assert (found.count, found.min, found.max) == (60, percent, percent), node
            assert store.history(HOST, "cpu_percent", AT, AT + 3600, 1)[0].count == 60, node
            assert [use.user for use in store.usage(GPU, AT, AT + 60)] == [user]
            assert [use.user for use in store.usage(None, AT, AT + 60)] == [user]
            assert [device.index for device in store.devices()] == [index]
            assert "power_watts" in store.metrics(GPU)

        first, second = reopen("node-1"), reopen("node-2")
        for node in facts:
            check(node)
        before = second.contents()
        upkeep(first, AT + DAY_SECONDS)
        after = second.contents()
        assert (after.unpacked, after.extents) == (before.unpacked, before.extents)
        assert before.unpacked
        assert not first.contents().unpacked
        for node in facts:
            check(node)
        upkeep(second, AT + 20 * DAY_SECONDS, Retention(DAY_SECONDS, DAY_SECONDS, DAY_SECONDS))
        assert not second.history(GPU, "utilization_percent", AT, AT + 3600, 1)[0].count
        assert list(second.usage(None, AT, AT + 60)) == []
        check("node-1")
        assert list(reopen("node-3").devices()) == []
        assert not reopen("node-3").contents().extents
