"""What is remembered, how finely, for how long, and who was there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.history.rules.backlog import MOST_TICKS, Backlog
from andon.history.rules.codec import SeriesRow, point
from andon.history.rules.intervals import JOIN_SECONDS, OpenIntervals, UsageInterval, joined
from andon.history.rules.series import (
    HOST,
    Bucket,
    NodeReadings,
    buckets,
    stored_value,
    summary,
    throttle_mask,
    throttle_reasons,
    tick_of,
)
from andon.history.rules.throttle_shares import shares
from andon.history.rules.tiers import (
    DAY_SECONDS,
    WINDOW_MS,
    DueRoll,
    Extent,
    Retention,
    Segment,
    StoreContents,
    Tier,
    plan,
    rolled,
    rolled_until,
    segments,
    squeezed,
    window,
)
from andon.model.device import (
    Device,
    DeviceStatus,
    Disk,
    Host,
    Network,
    Process,
    Sample,
    Snapshot,
    State,
)
from tests.support.history_parts import snapshot
from tests.support.invariants import check_backlog
from tests.support.rows import rows

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


# Ticks.


def test_the_readings_of_a_snapshot_are_made_once_for_all_who_take_them() -> None:
    one = snapshot(1.0)
    assert tick_of(one) is tick_of(one)
    assert tick_of(snapshot(1.0)) == tick_of(one)
    assert tick_of(snapshot(2.0)) != tick_of(one)


def test_a_tick_holds_what_was_read_and_nothing_else() -> None:
    seen = snapshot(5.0, utilization_percent=0, power_watts=71.234, throttle=("sw_power_cap",))
    assert tick_of(seen).readings == (
        (
            "GPU-1",
            ("utilization_percent", "power_watts", "throttle", "throttle:sw_power_cap"),
            (0, 71_234, 8, 1),
        ),
    )


def test_only_what_slows_it_down_costs_a_point() -> None:
    for reasons, more in (
        ((), ()),
        (("gpu_idle",), ()),
        (("gpu_idle", "new"), ("throttle:other",)),
    ):
        (reading,) = tick_of(snapshot(5.0, throttle=reasons)).readings
        assert reading[1] == ("throttle", *more)
    (careful,) = tick_of(
        snapshot(5.0, power_watts=float("nan"), throttle=("hw_slowdown",))
    ).readings
    assert careful[1:] == (("throttle", "throttle:hw_slowdown"), (16, 1))


def test_a_share_is_unknown_where_nothing_was_read() -> None:
    active = [Bucket(0, 1, 3), Bucket(1, 2), Bucket(2, 3)]
    assert shares([4, 0, 5], {"hw_slowdown": active, "never": [Bucket(0, 1)] * 3}) == {
        "hw_slowdown": [0.75, None, 0.0]
    }


def test_a_device_that_did_not_answer_leaves_a_gap() -> None:
    assert tick_of(snapshot(5.0, state=State.STALE, utilization_percent=5)).readings == ()


def test_the_node_has_values_of_its_own() -> None:
    host = Host(12.5, 3, 4, 0.75, (Disk("/", 5, 9), Disk("/x", 6, 9)), (Network("e", 7, 8),))
    tick = tick_of(Snapshot("n", 1.0, host=host))
    assert tick.readings[0][0] == HOST
    assert tick.readings[0][2] == (125, 3, 75, 11, 7, 8)
    assert tick.count == 6


def test_what_is_no_number_is_not_kept() -> None:
    assert stored_value("power_watts", float("nan")) is None
    assert stored_value("memory_used_bytes", 1 << 60) is None
    assert stored_value("utilization_percent", None) is None


def test_throttle_reasons_come_back_and_new_ones_are_not_lost() -> None:
    known = ("sw_power_cap", "hw_slowdown")
    assert throttle_reasons(throttle_mask(known)) == known
    assert throttle_reasons(throttle_mask(("brand_new",))) == ("other",)


# Buckets.


def test_buckets_tell_least_mean_and_most_and_leave_gaps() -> None:
    rows = [point(0, 10), point(999, 30), point(2500, 7), point(4000, 99)]
    found = buckets(rows, 0.0, 4.0, 4, scale=10)
    assert [(b.count, b.min, b.mean, b.max) for b in found] == [
        (2, 1.0, 2.0, 3.0), (0, None, None, None), (1, 0.7, 0.7, 0.7), (0, None, None, None),
    ]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 9999), st.integers(-500, 500)), max_size=60))
def test_no_reading_is_lost_or_counted_twice(points: list[tuple[int, int]]) -> None:
    found = buckets([point(*p) for p in points], 0.0, 10.0, 7)
    assert sum(b.count for b in found) == len(points)
    whole = summary(found)
    if points:
        assert whole is not None
        assert (whole.min, whole.max) == (min(v for _, v in points), max(v for _, v in points))
    else:
        assert whole is None


def test_rolled_up_rows_begin_on_the_minute() -> None:
    rows = [point(61_000, 4), point(119_000, 8), point(180_000, 1)]
    assert rolled(rows, Tier.MINUTE) == [
        SeriesRow(60_000, 2, 4, 8, 12),
        SeriesRow(180_000, 1, 1, 1, 1),
    ]


# Tiers.


def test_only_windows_that_have_ended_are_packed() -> None:
    due = plan(1200.0, StoreContents((0, 600_000, 1_200_000)), Retention())
    assert due.pack == (0, 600_000)


def test_minutes_are_made_of_raw_windows_and_hours_of_minutes() -> None:
    extents = {Tier.RAW: Extent(0, DAY_MS), Tier.MINUTE: Extent(0, 22 * HOUR_MS)}
    due = plan(86_400.0, StoreContents((), extents), Retention())
    assert due.roll == (DueRoll(Tier.MINUTE, 22 * HOUR_MS, DAY_MS),)
    long = {Tier.RAW: Extent(0, 11 * DAY_MS), Tier.MINUTE: Extent(0, 11 * DAY_MS)}
    due = plan(11 * 86_400.0, StoreContents((), long), Retention())
    assert due.roll == (DueRoll(Tier.HOUR, 0, 11 * DAY_MS),)


def test_no_window_is_rolled_up_before_all_of_it_is_packed() -> None:
    """A history that was not maintained for long catches up window by window."""
    extents = {Tier.RAW: Extent(0, 3 * HOUR_MS), Tier.MINUTE: Extent(0, 2 * HOUR_MS)}
    waiting = tuple(range(3 * HOUR_MS, 300 * HOUR_MS, 600_000))
    due = plan(300 * 3600.0, StoreContents(waiting, extents), Retention())
    assert due.pack == waiting
    assert due.roll == (), "neither two hours of minutes nor ten days of hours are complete"


def test_hours_wait_for_their_minutes() -> None:
    extents = {Tier.RAW: Extent(0, 300 * HOUR_MS), Tier.MINUTE: Extent(0, 238 * HOUR_MS)}
    due = plan(300 * 3600.0, StoreContents((), extents), Retention())
    assert [window.tier for window in due.roll] == [Tier.MINUTE] * 16
    complete = extents | {Tier.MINUTE: Extent(0, 240 * HOUR_MS)}
    due = plan(300 * 3600.0, StoreContents((), complete), Retention())
    assert (Tier.HOUR, 0) in [(window.tier, window.begin) for window in due.roll]


@rows("raw, minutes, hours, shortened", [
    ((0, 50), (0, 20), (0, 20), ()),
    ((0, 50), (0, 50), (0, 20), (Tier.MINUTE,)),
    ((0, 50), (0, 50), (0, 50), (Tier.MINUTE, Tier.HOUR)),
    ((0, 50), (0, 20), (0, 50), (Tier.HOUR,)),
    ((30, 50), (0, 50), None, ()),  # all of it is still to come: perhaps the clock is behind now
    ((0, 50), (40, 50), None, (Tier.MINUTE,)),
    ((0, 50), None, None, ()),
    (None, (0, 50), None, ()),
])  # fmt: skip
def test_a_tier_is_not_complete_up_to_a_time_to_come(
    raw: tuple[int, int] | None,
    minutes: tuple[int, int] | None,
    hours: tuple[int, int] | None,
    shortened: tuple[Tier, ...],
) -> None:
    """Days; it is the 21st. Nothing is rolled up or deleted before the ends are right."""
    spans = zip(Tier, (raw, minutes, hours), strict=True)
    held = {tier: Extent(days[0] * DAY_MS, days[1] * DAY_MS) for tier, days in spans if days}
    due = plan(21 * DAY_SECONDS, StoreContents((), held), Retention())
    assert due.shorten == shortened
    assert not due.shorten or (due.roll, due.delete) == ((), ())


def test_nothing_goes_before_it_is_rolled_up() -> None:
    now = 100 * DAY_SECONDS
    raw = {Tier.RAW: Extent(0, 100 * DAY_MS)}
    assert plan(now, StoreContents((), raw), Retention()).delete == ()
    both = raw | {Tier.MINUTE: Extent(0, 50 * DAY_MS)}
    assert plan(now, StoreContents((), both), Retention()).delete == ((Tier.RAW, 50 * DAY_MS),)


def test_a_size_budget_shortens_the_finest_memory_first() -> None:
    extents = {Tier.RAW: Extent(0, 2 * DAY_MS), Tier.MINUTE: Extent(0, 2 * DAY_MS)}
    retention, now = Retention(most_bytes=100), 2 * DAY_SECONDS
    assert squeezed(now, retention, StoreContents((), extents, 100)) == retention
    tight = squeezed(now, retention, StoreContents((), extents, 200))
    assert tight == replace(retention, raw_seconds=tight.raw_seconds)
    assert tight.raw_seconds == pytest.approx(0.9 * DAY_SECONDS)
    huge = squeezed(now, retention, StoreContents((), extents, 100_000))
    assert huge.minute_seconds < DAY_SECONDS


def test_a_store_with_a_smaller_limit_of_its_own_keeps_to_it() -> None:
    held = StoreContents((), {Tier.RAW: Extent(0, 2 * DAY_MS)}, 200, most_bytes=100)
    tight = squeezed(2 * DAY_SECONDS, Retention(), held)
    assert tight.raw_seconds == pytest.approx(0.9 * DAY_SECONDS)
    roomy = replace(held, most_bytes=10**12)
    assert squeezed(2 * DAY_SECONDS, Retention(), roomy) == Retention()


@pytest.mark.parametrize(
    ("next_below", "until"),
    [(None, 2 * HOUR_MS), (3 * HOUR_MS, 2 * HOUR_MS), (51 * HOUR_MS, 50 * HOUR_MS)],
)
def test_after_an_empty_window_the_next_one_with_data_follows(
    next_below: int | None, until: int
) -> None:
    assert rolled_until(DueRoll(Tier.MINUTE, 0, 60 * HOUR_MS), next_below) == until
    early = DueRoll(Tier.MINUTE, 0, 31 * HOUR_MS)
    assert rolled_until(early, next_below) == min(until, 30 * HOUR_MS), (
        "not beyond what is complete"
    )


def test_intervals_of_use_are_kept_as_long_as_the_coarsest_tier() -> None:
    due = plan(1e9, StoreContents(), Retention(hour_seconds=1e6))
    assert due.forget == 1e9 - 1e6


def test_a_coarse_question_is_answered_by_a_coarse_tier_as_far_as_it_reaches() -> None:
    extents = {Tier.RAW: Extent(0, 1000), Tier.MINUTE: Extent(0, 800), Tier.HOUR: Extent(0, 500)}
    assert segments(100, 1000, 4e6, extents) == [
        Segment(Tier.HOUR, 100, 500), Segment(Tier.MINUTE, 500, 800), Segment(Tier.RAW, 800, 1000),
    ]  # fmt: skip
    assert segments(100, 1000, 1.0, extents) == [Segment(Tier.RAW, 100, 1000)]


def test_a_fine_question_about_the_far_past_is_answered_by_what_is_left() -> None:
    extents = {Tier.RAW: Extent(900, 1000), Tier.MINUTE: Extent(0, 950)}
    assert segments(0, 2000, 1.0, extents) == [
        Segment(Tier.MINUTE, 0, 900), Segment(Tier.RAW, 900, 1000),
    ]  # fmt: skip


EXTENT = st.tuples(st.integers(0, 50), st.integers(1, 50)).map(lambda e: Extent(e[0], e[0] + e[1]))


@given(st.dictionaries(st.sampled_from(Tier), EXTENT), st.integers(0, 60), st.integers(1, 60))
def test_every_instant_that_some_tier_holds_is_answered_once(
    extents: dict[Tier, Extent], since: int, length: int
) -> None:
    found = segments(since, since + length, 60_000.0, extents)
    for at in range(since, since + length):
        there = any(e.since_ms <= at < e.until_ms for e in extents.values())
        assert sum(s.since_ms <= at < s.until_ms for s in found) == there


def test_a_longer_window_holds_whole_shorter_ones() -> None:
    assert WINDOW_MS[Tier.MINUTE] % WINDOW_MS[Tier.RAW] == 0
    assert WINDOW_MS[Tier.HOUR] % WINDOW_MS[Tier.MINUTE] == 0
    assert window(Tier.RAW, 1_234_567) == 1_200_000


# Who.


def who(at: float, memory: int | None = None) -> Snapshot:
    return snapshot(at, Process(7, started=1.0, user="ada", name="python", memory_bytes=memory))


def test_an_interval_grows_while_the_process_is_seen() -> None:
    uses, first = OpenIntervals().step(who(10.0, 5))
    uses, _ = uses.step(who(11.0, 9))
    uses, third = uses.step(who(12.0, 2))
    assert first == (UsageInterval("GPU-1", 7, 1.0, "ada", "python", 10.0, 10.0, 5),)
    assert third == (UsageInterval("GPU-1", 7, 1.0, "ada", "python", 10.0, 12.0, 9),)


def test_a_short_absence_does_not_end_an_interval_and_a_long_one_does() -> None:
    uses, _ = OpenIntervals().step(who(10.0))
    uses, none = uses.step(snapshot(11.0))
    assert none == ()
    uses, again = uses.step(who(10.0 + JOIN_SECONDS))
    assert again[0].first == 10.0
    uses, _ = uses.step(snapshot(500.0))
    assert uses.open == {}
    _, anew = uses.step(who(501.0))
    assert anew[0].first == 501.0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 500), st.integers(0, 90)), max_size=12))
def test_joining_twice_changes_nothing(found: list[tuple[int, int, int]]) -> None:
    uses = [UsageInterval("g", pid, None, None, None, at, at + length) for pid, at, length in found]
    once = joined(uses)
    assert joined(once) == once


CROWDS = (
    (),
    (Process(7, started=1.0, memory_bytes=5),),
    (Process(7, started=1.0, memory_bytes=9), Process(8, started=2.0)),
    (Process(8, started=2.0, user="ada"),),
)
SEEN = st.tuples(st.sampled_from(CROWDS), st.booleans(), st.sampled_from((-3.0, 0.5, 1.0, 15, 99)))


@given(st.lists(st.tuples(SEEN, st.booleans()), max_size=30))
def test_intervals_that_are_lengthened_later_end_up_the_same(
    seen: list[tuple[tuple[tuple[Process, ...], bool, float], bool]],
) -> None:
    """Followed, with a settling now and then, against a step at every snapshot."""
    at, followed, stepped = 1000.0, OpenIntervals(), OpenIntervals()
    ours: dict[object, UsageInterval] = {}
    theirs: dict[object, UsageInterval] = {}
    for (crowd, answers, later), written in seen:
        at += later
        look = snapshot(at, *crowd, state=State.OK if answers else State.STALE)
        look = replace(look, devices=(replace(look.devices[0], processes=crowd),))
        stepped, changed = stepped.step(look)
        theirs |= {(*use.identity, use.first): use for use in changed}
        followed, some = followed.follow(look)
        ours |= {(*use.identity, use.first): use for use in some}
        if written:
            followed, some = followed.settle()
            ours |= {(*use.identity, use.first): use for use in some}
            assert ours == theirs
    followed, some = followed.settle()
    ours |= {(*use.identity, use.first): use for use in some}
    assert ours == theirs
    assert followed.settle() == (followed, ())


def test_where_nobody_comes_or_goes_nothing_is_made_anew() -> None:
    first = who(10.0, 5)
    uses, _ = OpenIntervals().follow(first)
    for second in range(1, 5):
        uses, changed = uses.follow(replace(first, at=10.0 + second))
        assert changed == ()
    _, changed = uses.settle()
    assert [(use.first, use.last) for use in changed] == [(10.0, 14.0)]


# The backlog.


def test_a_backlog_is_bounded_and_counts_what_it_dropped() -> None:
    backlog = Backlog()
    for at in range(MOST_TICKS + 5):
        backlog = backlog.add(NodeReadings(at, ()), (), ())
        check_backlog(backlog)
    assert (len(backlog.ticks), backlog.dropped) == (MOST_TICKS, 5)
    assert backlog.ticks[0].at == 5
    done = backlog.flushed(1.0)
    assert (done.ticks, done.written, done.dropped) == ((), MOST_TICKS, 5)


def test_a_write_is_due_at_the_next_flush_or_when_it_may_be_tried_again() -> None:
    backlog = Backlog().failed(100.0)
    check_backlog(backlog)
    assert backlog.due(5.0, retry_at=101.0) == 105.0
    assert backlog.due(5.0, retry_at=160.0) == 160.0
    assert backlog.flushed(200.0).due(5.0, retry_at=float("-inf")) == 205.0


@given(st.integers(0, 10**13))
def test_a_rate_is_kept_to_half_a_per_cent(rate: int) -> None:
    stored = stored_value("pcie_sent_bytes_per_second", rate)
    assert stored is not None
    assert 0 <= rate - stored <= rate / 128
    assert (stored == 0) == (rate == 0), "little is not nothing"
    sample = Sample(1.0, pcie_sent_bytes_per_second=rate)
    status = DeviceStatus(Device("GPU-1", 0, "nvidia", "H200"), State.OK, 0.0, sample=sample)
    tick = tick_of(Snapshot("n", 1.0, devices=(status,)))
    assert tick.readings[0][1:] == (("pcie_sent_bytes_per_second",), (stored,))
