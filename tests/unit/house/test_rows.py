"""A table that is one test names each row that fails, and runs them all."""

import pytest

from tests.support.rows import rows


def test_every_row_is_tried_and_each_that_fails_is_named() -> None:
    tried = []

    @rows("number, word", [(1, "one"), (2, "zwei"), (3, "three"), (4, "vier")])
    def table(number: int, word: str) -> None:
        tried.append(number)
        assert len(word) != 4, f"{word} is German"

    with pytest.raises(AssertionError, match="2 of 4 rows failed") as failed:
        table()
    assert tried == [1, 2, 3, 4]
    said = str(failed.value)
    assert "2, 'zwei': AssertionError: zwei is German" in said
    assert "4, 'vier': AssertionError: vier is German" in said
    assert "'one'" not in said


def test_a_row_that_raises_nothing_is_named_too() -> None:
    @rows("text", ["1", "x"])
    def table(text: str) -> None:
        with pytest.raises(ValueError):
            int(text)

    with pytest.raises(AssertionError, match="'1': Failed: DID NOT RAISE"):
        table()


def test_tables_on_top_of_each_other_are_tried_in_pairs() -> None:
    tried = []

    @rows("left", "ab")
    @rows("right", [1, 2], ids=["first", "second"])
    def pairs(left: str, right: int) -> None:
        tried.append((left, right))
        assert (left, right) != ("b", 2)

    with pytest.raises(AssertionError) as failed:
        pairs()
    assert tried == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert "'b'" in str(failed.value)
    assert "second" in str(failed.value)


@rows(("number", "square"), [(2, 4), (3, 9)])
def test_it_works_in_place_of_parametrize(number: int, square: int) -> None:
    assert number * number == square


def test_an_empty_table_and_a_row_of_another_length_are_mistakes() -> None:
    with pytest.raises(AssertionError, match="is empty"):
        rows("x", [])
    with pytest.raises(AssertionError, match="each row has"):
        rows("x, y", [(1, 2), (3,)])
