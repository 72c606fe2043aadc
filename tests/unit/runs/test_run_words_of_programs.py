"""What a program says about its run becomes plain JSON, whatever it says."""

import json
import math
from decimal import Decimal
from fractions import Fraction
from numbers import Integral
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.api.run import RecordedRun
from andon.model.codec import NAME
from andon.model.run.record import MOST_LINE_BYTES, ItemState, RunEvent, RunState
from andon.model.run.wire import line_from_json, line_to_text
from andon.runs.rules.items import ItemLog
from andon.runs.rules.plain import ending_of, plain_numbers, plain_table
from tests.support.rows import rows

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), ANYTHING, max_size=5))
def test_whatever_is_said_can_be_written_and_read_again(values: dict[str, Any]) -> None:
    text = line_to_text(RunEvent(1.0, "epoch", plain_table(values)))
    assert text.count("\n") == 1
    text.encode()
    assert isinstance(line_from_json(json.loads(text)), RunEvent)


def test_a_secret_parameter_is_hidden() -> None:
    found = plain_table({"lr": 1e-4, "api_key": "x", "optim": {"token": "y", "max_tokens": 5}})
    assert found == {"lr": 1e-4, "api_key": "***", "optim": {"token": "***", "max_tokens": 5}}


def test_values_without_end_are_cut() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    assert len(json.dumps(plain_table(loop))) < 20_000
    assert len(plain_table({str(n): n for n in range(10_000)})) == 200


class Tensor:
    """One element, as a framework has it."""

    def __float__(self) -> float:
        return 0.25


def test_numbers_are_taken_and_what_is_none_is_told() -> None:
    numbers, others = plain_numbers({"loss": Tensor(), "lr": 1, "bad": math.nan, "text": "x"})
    assert numbers == {"loss": 0.25, "lr": 1.0}
    assert others == {"bad": "nan", "text": "x"}


def test_a_number_too_large_for_any_reader_ends_no_program() -> None:
    numbers, others = plain_numbers({"large": 1e308, "huge": 10**400, "endless": 10**5000})
    assert numbers == {"large": 1e308}
    assert others["huge"].startswith("1000")
    assert others["endless"] == "int without a text"
    assert plain_table({"x": 10**5000}) == {"x": "int without a text"}


def test_items_are_numbered_and_timed() -> None:
    book = ItemLog()
    lines = [
        book.line(10.0, "a", ItemState.START, device="0"),
        book.line(11.0, "b", ItemState.START),
        book.line(12.5, "a", ItemState.FAILED, output="boom"),
        book.line(12.6, "a", ItemState.RETRY),
        book.line(13.0, "a", ItemState.START),
        book.line(14.0, "a", ItemState.OK),
        book.line(14.5, "b", ItemState.OK, runtime_seconds=3.0),
    ]
    assert [(one.index, one.attempt, one.runtime_seconds) for one in lines] == [
        (0, 1, None), (1, 1, None), (0, 1, 2.5), (0, 1, 2.6), (0, 2, None), (0, 2, 1.0),
        (1, 1, 3.0),
    ]  # fmt: skip


@rows(
    ("error", "state", "code"),
    [
        (None, RunState.SUCCEEDED, None),
        (SystemExit(), RunState.SUCCEEDED, 0),
        (SystemExit(0), RunState.SUCCEEDED, 0),
        (SystemExit(3), RunState.FAILED, 3),
        (SystemExit("no"), RunState.FAILED, 1),
        (KeyboardInterrupt(), RunState.STOPPED, None),
        (GeneratorExit(), RunState.STOPPED, None),
        (MemoryError(), RunState.HOST_OUT_OF_MEMORY, None),
        (ValueError("x"), RunState.FAILED, None),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
         RunState.DEVICE_OUT_OF_MEMORY, None),
    ],
)  # fmt: skip
def test_the_error_that_leaves_a_run_is_how_it_ended(
    error: BaseException | None, state: RunState, code: int | None
) -> None:
    assert ending_of(error, str(error))[:2] == (state, code)


@pytest.mark.parametrize(
    "told",
    [
        {"runtime_seconds": math.nan},
        {"runtime_seconds": -1.0},
        {"runtime_seconds": "long"},
        {"index": 10**30},
        {"index": -1},
        {"attempt": 10**30},
    ],
)
def test_a_line_of_an_item_can_be_read_whatever_the_program_says(told: dict[str, Any]) -> None:
    line = ItemLog().line(10.0, "a", ItemState.OK, **told)
    again = line_from_json(json.loads(line_to_text(line)))
    assert again == line
    assert (line.index, line.attempt, line.runtime_seconds) == (0, 1, None)


def test_an_item_during_which_the_clock_was_set_back_can_be_read() -> None:
    book = ItemLog()
    book.line(10.0, "a", ItemState.START)
    line = book.line(3.0, "a", ItemState.OK)
    assert line_from_json(json.loads(line_to_text(line))) == line
    assert line.runtime_seconds == 0.0


class Odd(float):
    """A number of a class of its own, as numpy.float64 is."""


class Broken:
    """Nothing can be asked of it."""

    def __float__(self) -> float:
        raise SystemError("no number")

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __index__(self) -> int:
        raise ValueError("no number")

    __repr__ = __str__


class BrokenTable(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("no items")

    def __str__(self) -> str:
        return "a table"


class BrokenNumber(int):
    def __int__(self) -> int:
        raise ValueError("no number")

    __index__ = __abs__ = __int__


def test_values_of_a_programs_own_classes_end_no_program() -> None:
    values = {"lr": Odd(0.5), "layers": [Odd(2)], "table": BrokenTable(a=1), "x": Broken(),
              "n": BrokenNumber(3), Broken(): 1}  # fmt: skip
    found = plain_table(values)  # type: ignore[arg-type]
    assert found == {
        "lr": 0.5, "layers": [2.0], "table": "a table", "x": "Broken without a text",
        "n": "3", "Broken without a text": 1,
    }  # fmt: skip
    assert type(found["lr"]) is float
    line_to_text(RunEvent(1.0, "epoch", found))
    assert plain_table(BrokenTable(a=1)) == {}
    assert plain_numbers({"x": Broken()}) == ({}, {"x": "Broken without a text"})
    numbers: Any = (Broken(), None, Broken(), Broken())
    line = ItemLog().line(1.0, "a", ItemState.OK, *numbers)
    assert (line.index, line.attempt, line.runtime_seconds) == (0, 1, None)


def test_a_table_of_tables_costs_no_more_than_a_line_of_a_record_has_room_for() -> None:
    itself: list[Any] = []
    itself += [itself] * 200
    texts = [["ä" * 2000] * 200] * 200
    for value in (itself, texts, {f"{'n' * 2000}{n}": n for n in range(200)}):
        line = line_to_text(RunEvent(1.0, "epoch", plain_table({"a": value, "b": value})))
        assert len(line.encode()) < MOST_LINE_BYTES


def test_numbers_of_other_libraries_are_numbers() -> None:
    found = plain_table({"a": Fraction(1, 2), "b": [Whole()], "c": Decimal("1.5")})
    assert found == {"a": 0.5, "b": [3], "c": "1.5"}
    line_to_text(RunEvent(1.0, "epoch", found))


class Whole:
    """As numpy.int64: no int, but registered as one."""

    def __int__(self) -> int:
        return 3

    __abs__ = __int__


Integral.register(Whole)


def test_a_name_is_as_long_as_readers_take() -> None:
    numbers, others = plain_numbers({"x" * 9000: 1, "y" * 9000: math.nan})
    assert {len(name) for name in (*numbers, *others)} == {NAME}
    tags = RecordedRun("train", tags=["z" * 9000])._tags
    assert [len(tag) for tag in tags] == [NAME]


def test_the_error_of_an_item_is_the_programs_own() -> None:
    class Mine(Exception):
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    recorded = RecordedRun("train")
    with pytest.raises(Mine), recorded.working_on("a"):
        raise Mine
