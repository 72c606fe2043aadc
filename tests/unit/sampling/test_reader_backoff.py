"""When a reader is waited for, given up, and tried again."""

from hypothesis import given
from hypothesis import strategies as st

from andon.sampling.rules import timing
from andon.sampling.rules.timing import Attempts, ReaderLife, ReaderPhase


def test_a_first_crash_is_answered_at_once() -> None:
    after = timing.failed(Attempts(), lived_seconds=0.1, now=10.0)
    assert timing.may_start(after, now=10.0)


def test_a_second_crash_is_answered_after_a_second() -> None:
    once = timing.failed(Attempts(), 0.1, now=10.0)
    twice = timing.failed(once, 0.1, now=10.2)
    assert not timing.may_start(twice, now=10.9)
    assert timing.may_start(twice, now=11.2)


def test_a_reader_that_lived_long_starts_the_count_afresh() -> None:
    assert timing.failed(Attempts(failures=6), lived_seconds=60.0, now=1.0).failures == 1


def test_at_most_two_readers_are_ever_stuck() -> None:
    one = timing.abandoned(Attempts(), now=10.0)
    two = timing.abandoned(one, now=30.0)
    assert timing.may_start(one, now=100.0)
    assert not timing.may_start(two, now=500.0)


def test_one_that_the_kernel_let_go_makes_room() -> None:
    two = Attempts(failures=2, last_failure=30.0, stuck=2, last_abandoned=30.0)
    assert timing.may_start(timing.returned(two, stuck=1), now=40.0)


def test_after_ten_minutes_another_is_tried() -> None:
    two = Attempts(failures=2, last_failure=30.0, stuck=2, last_abandoned=30.0)
    assert not timing.may_start(timing.returned(two, 2), now=629.0)
    assert timing.may_start(timing.returned(two, 2), now=630.0)


def test_a_reader_that_does_not_open_is_stuck_after_ten_seconds() -> None:
    life = ReaderLife(ReaderPhase.OPENING, since=5.0, heard=5.0)
    assert not timing.is_stuck(life, None, now=14.9)
    assert timing.is_stuck(life, None, now=15.0)


def test_a_reader_that_still_talks_is_not_stuck() -> None:
    assert not timing.is_stuck(
        ReaderLife(ReaderPhase.OPEN, 0.0, heard=99.0), outstanding_since=1.0, now=100
    )
    assert timing.is_stuck(
        ReaderLife(ReaderPhase.OPEN, 0.0, heard=89.0), outstanding_since=1.0, now=100
    )
    assert not timing.is_stuck(ReaderLife(ReaderPhase.OPEN, 0.0, heard=1.0), None, now=100.0)


def test_starting_python_has_its_own_time() -> None:
    starting, opening = (
        ReaderLife(p, 10.0, 10.0) for p in (ReaderPhase.STARTING, ReaderPhase.OPENING)
    )
    assert timing.waits_until(starting, 1.0) == 30.0
    assert timing.waits_until(opening, 1.0) == 12.0
    assert not timing.is_stuck(starting, None, now=29.9)
    assert timing.is_stuck(starting, None, now=30.0)


def test_time_without_a_processor_counts_against_no_driver_within_limits() -> None:
    opening = ReaderLife(ReaderPhase.OPENING, 10.0, 10.0)
    assert timing.waits_until(opening, 1.0, starved_seconds=7.0) == 19.0
    assert timing.waits_until(opening, 1.0, starved_seconds=1000.0) == 72.0
    assert not timing.is_stuck(opening, None, now=26.9, starved_seconds=7.0)
    assert timing.is_stuck(opening, None, now=27.0, starved_seconds=7.0)


def test_a_lost_card_is_looked_for_again_ever_more_seldom() -> None:
    assert [timing.renew_after_seconds(n) for n in range(6)] == [
        60,
        120,
        240,
        480,
        600,
        600,
    ]


@given(st.lists(st.sampled_from([1.0, 61.0, 700.0, 3600.0, 86_400.0]), max_size=60))
def test_a_driver_that_hangs_for_ever_never_has_more_than_four_stuck_readers(
    waits: list[float],
) -> None:
    attempts, now, processes = Attempts(), 0.0, 0
    for wait in waits:
        now += wait
        attempts = timing.returned(attempts, processes)
        if timing.may_start(attempts, now):
            attempts = timing.abandoned(attempts, now + timing.ABANDON_SECONDS)
            processes += 1
    assert processes <= 4
