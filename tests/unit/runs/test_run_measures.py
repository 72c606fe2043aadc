"""Medians and ranges of runs: a difference is shown only where the ranges do not meet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.runs.rules.measures import Order, SpreadOfRuns, change_of, order_of, spread_of

NUMBERS = st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=9)


def test_a_spread_is_of_what_is_known() -> None:
    assert spread_of([3, None, 1, 2]) == SpreadOfRuns(3, 2, 1, 3)
    assert spread_of([None]) is None


@pytest.mark.parametrize(
    ("one", "other", "order"),
    [
        ([1, 2, 3], [4, 5, 6], Order.LOWER),
        ([4, 5, 6], [1, 2, 3], Order.HIGHER),
        ([1, 2, 4], [4, 5, 6], Order.SAME),
        ([1, 2], [4, 5, 6], Order.UNKNOWN),
        ([1, 2, None], [4, 5, 6], Order.UNKNOWN),
        ([], [4, 5, 6], Order.UNKNOWN),
    ],
)
def test_which_side_is_lower(one: list[float], other: list[float], order: Order) -> None:
    assert order_of(spread_of(one), spread_of(other)) is order


@given(NUMBERS, NUMBERS)
def test_the_order_turns_with_the_sides(one: list[float], other: list[float]) -> None:
    turned = {Order.LOWER: Order.HIGHER, Order.HIGHER: Order.LOWER}
    there, back = (order_of(spread_of(a), spread_of(b)) for a, b in ((one, other), (other, one)))
    assert back is turned.get(there, there)


def test_a_change_is_a_share_of_the_second() -> None:
    assert change_of(110, 100) == pytest.approx(0.1)
    assert change_of(-110, -100) == pytest.approx(-0.1)
    assert change_of(1, 0) is None
