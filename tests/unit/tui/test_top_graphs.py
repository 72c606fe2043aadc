"""The graphs of top: what is known shows, what is not leaves a gap, and nothing is out of place."""

from hypothesis import given
from hypothesis import strategies as st

from andon.tui.graphs import graph, line, values_across

VALUES = st.lists(st.one_of(st.none(), st.floats(0, 200)), max_size=60)


@given(VALUES, st.integers(1, 30), st.integers(1, 6), st.booleans())
def test_a_graph_is_as_wide_and_tall_as_asked(
    values: list[float | None], width: int, height: int, ascii_only: bool
) -> None:
    for draw in (graph, line):
        rows = draw(values, width, height, 100.0, ascii_only)
        assert len(rows) == height
        assert all(len(row) == width for row in rows)
        assert not ascii_only or "".join(rows).isascii()


def test_a_known_value_shows_and_an_unknown_one_does_not() -> None:
    table = {
        (None, None): " ",
        (0.0, None): "⡀",
        (100.0, 100.0): "⣿",
        (None, 100.0): "⢸",
        (50.0, 25.0): "⣄",
        (300.0, 300.0): "⣿",  # above the scale is full
    }
    wrong = {
        values: found
        for values, wanted in table.items()
        if (found := graph(list(values), 1, 1, 100.0)[0]) != wanted
    }
    assert not wrong


def test_the_newest_value_is_at_the_right() -> None:
    top, below = graph([100.0] + [0.0] * 9, 5, 2, 100.0)
    assert (top, below) == ("⡇    ", "⣇⣀⣀⣀⣀")
    assert graph([100.0, 0.0], 5, 1, 100.0) == ["    ⣇"]


def test_ascii_has_one_value_a_column() -> None:
    assert (values_across(7, True), values_across(7, False)) == (7, 14)
    assert graph([0.0, 60.0, 100.0], 3, 1, 100.0, True) == [".:|"]


def test_a_steady_load_is_a_line_and_a_jump_joins_its_ends() -> None:
    assert line([100.0] * 4, 2, 2, 100.0) == ["⠉⠉", "  "]
    assert line([100.0, 100.0, 0.0, 0.0], 2, 2, 100.0) == ["⠉⡆", " ⣇"]
    assert line([None, None, 0.0, None], 2, 1, 100.0) == [" ⡀"]
    assert line([100.0, 0.0, 50.0, None], 4, 1, 100.0, ascii_only=True) == ["'|- "]
