"""A sparkline: one character per value, gaps for what is unknown."""

from hypothesis import given
from hypothesis import strategies as st

from andon.history.rules.sparkline import BLOCKS, sparkline

NAN = float("nan")
INFINITY = float("inf")


def test_the_scale_is_0_to_100_unless_told() -> None:
    assert sparkline([0, 13, 26, 38, 51, 63, 76, 100]) == "▁▂▃▄▅▆▇█"
    assert sparkline([50, 50]) == "▅▅"


def test_what_is_unknown_is_a_gap_and_zero_is_not() -> None:
    assert sparkline([None, 0, NAN, 100]) == " ▁ █"


def test_values_outside_the_scale_are_clamped() -> None:
    assert sparkline([-5, 200, -INFINITY, INFINITY]) == "▁█▁█"


def test_an_automatic_scale_spans_the_known_values() -> None:
    assert sparkline([40, None, 44, 48], low=None, high=None) == "▁ ▅█"


def test_one_end_may_be_automatic() -> None:
    assert sparkline([10, 20], high=None) == "▅█"
    assert sparkline([50, 75], low=None) == "▁▅"


def test_a_flat_automatic_series_is_a_middle_line_and_at_zero_a_bottom_line() -> None:
    assert sparkline([61, 61, None, 61], low=None, high=None) == "▄▄ ▄"
    assert sparkline([0, 0], low=None, high=None) == "▁▁"


def test_nothing_is_nothing() -> None:
    assert sparkline([]) == ""
    assert sparkline([None, NAN], low=None, high=None) == "  "


ends = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.none() | st.floats()), ends, ends)
def test_there_is_exactly_one_character_per_value(
    values: list[float | None], low: float | None, high: float | None
) -> None:
    line = sparkline(iter(values), low, high)
    assert len(line) == len(values)
    for value, block in zip(values, line, strict=True):
        assert (block == " ") == (value is None or value != value)
        assert block == " " or block in BLOCKS


@given(st.lists(st.floats(allow_nan=False), min_size=2))
def test_a_larger_value_is_never_drawn_lower(values: list[float]) -> None:
    line = sparkline(sorted(values), low=None, high=None)
    assert list(line) == sorted(line, key=BLOCKS.index)
