"""Rates from counters: right where they can be, unknown with a reason otherwise, never negative."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.host.rules.rates import (
    CHANGED,
    FIRST,
    NARROW,
    NO_TIME,
    STARTED_AGAIN,
    WRAPPED,
    Counters,
    rates_between,
    steady_rate,
    wrapping_rate,
)
from tests.support.rows import rows


def at(seconds: float, **values: tuple[int, int]) -> Counters:
    return Counters(seconds, values)


@rows(
    ("before", "after", "found"),
    [
        (None, at(0, sda=(1, 2)), FIRST),
        (at(0, sda=(0, 0)), at(2, sda=(100, 0)), (50, 0)),
        (at(0, sda=(0, 0)), at(2, sda=(0, 0)), (0, 0)),
        (at(0, sda=(0, 0), sdb=(10, 10)), at(1, sda=(5, 6), sdb=(11, 12)), (6, 8)),
        (at(5, sda=(0, 0)), at(5, sda=(1, 1)), NO_TIME),
        (at(5, sda=(0, 0)), at(4, sda=(1, 1)), NO_TIME),
        (at(0, sda=(9, 9)), at(1, sda=(8, 10)), STARTED_AGAIN),
        (at(0, sda=(9, 9)), at(1, sda=(10, 8)), STARTED_AGAIN),
        (at(0, sda=(9, 9)), at(1, sda=(9, 9), sdb=(10**9, 0)), CHANGED),
        (at(0, sda=(9, 9), sdb=(1, 1)), at(1, sda=(10, 10)), CHANGED),
        (at(0, sda=(9, 9)), at(1, sdb=(10, 10)), CHANGED),
    ],
)
def test_rates_are_the_difference_over_the_time(
    before: Counters | None, after: Counters, found: object
) -> None:
    assert rates_between(before, after) == found


COUNTS = st.dictionaries(st.sampled_from("abc"), st.tuples(st.integers(0), st.integers(0)))


@given(COUNTS, COUNTS, st.floats(-10, 1e6))
def test_a_rate_is_never_negative(
    before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]], seconds: float
) -> None:
    found = rates_between(Counters(0.0, before), Counters(seconds, after))
    assert isinstance(found, str) or min(found) >= 0


GB = 10**9


@pytest.mark.parametrize(
    ("before", "after", "seconds", "found"),
    [(0, 10, 2.0, 5), (7, 7, 1.0, 0), (7, 6, 1.0, STARTED_AGAIN), (0, 10, 0.0, NO_TIME)],
)
def test_a_counter_that_never_wraps(before: int, after: int, seconds: float, found: object) -> None:
    assert steady_rate(before, after, seconds) == found


@pytest.mark.parametrize(
    ("before", "after", "seconds", "glimpse", "found"),
    [
        (0, 500, 5.0, 0.0, 100),
        (0, 500, 5.0, 90 * 10**6, 100),  # our own calls: the moment is busier than the rest
        (NARROW - 100, 400, 5.0, 100.0, 100),  # it wrapped once
        (100, 100 + 5 * GB, 5.0, 0.0, GB),  # more than 32 bits: it does not wrap
        (6 * GB, 5 * GB, 5.0, 0.0, STARTED_AGAIN),
        (3 * GB, 100, 5.0, 0.0, WRAPPED),
        (0, 500, 0.0, 0.0, NO_TIME),
    ],
)
def test_a_counter_of_32_bits_wraps(
    before: int, after: int, seconds: float, glimpse: float, found: object
) -> None:
    assert wrapping_rate(before, after, seconds, glimpse) == found


@given(st.integers(0, NARROW - 1), st.floats(0.5, 10), st.integers(0, 64 * GB))
def test_a_steady_rate_is_found_however_often_the_counter_wraps(
    start: int, seconds: float, rate: int
) -> None:
    passed = round(rate * seconds)
    found = wrapping_rate(start, (start + passed) % NARROW, seconds, float(rate))
    assert isinstance(found, int)
    assert found == pytest.approx(passed / seconds, abs=1.5)


@given(
    st.integers(0, NARROW - 1), st.integers(0, NARROW - 1), st.floats(0.01, 60), st.floats(0, 1e12)
)
def test_what_is_found_is_never_negative_and_near_the_moment(
    before: int, after: int, seconds: float, glimpse: float
) -> None:
    found = wrapping_rate(before, after, seconds, glimpse)
    if isinstance(found, int):
        assert found >= 0
        assert abs(found - glimpse) <= NARROW / seconds + 1
