"""JSON of another program as structs: what was encoded is read again, nothing else is."""

import json
from enum import StrEnum
from typing import Annotated, Any

import pytest
from msgspec import Struct, field

from andon.core.access.roles import ALL_SEEING
from andon.core.runs.fold import RunFold, row_of
from andon.model.json_fields import LONGEST, Wrong
from andon.model.shapes import Doc, read_as, to_json
from andon.web.answers.run_details import details_of
from andon.web.answers.run_schemas import RecordExtent, RunDetails
from tests.support.rows import rows
from tests.support.run_records import BEGAN, begin, end, sample


class Colour(StrEnum):
    """A choice."""

    RED = "red"


class Inner(Struct, frozen=True):
    """With a default."""

    name: str
    size: Annotated[float | None, Doc("may be missing")] = None


class Outer(Struct, frozen=True):
    """Every kind of field."""

    whole: int
    flag: bool
    colour: Colour
    inner: Inner | None
    many: tuple[Inner, ...]
    named: dict[str, list[float | None]]
    plain: str | float | bool | None
    more: list[str] = field(default_factory=list)


GOOD: dict[str, Any] = {
    "whole": 3, "flag": True, "colour": "red", "inner": None, "many": [{"name": "a", "size": 1}],
    "named": {"x": [1.5, None]}, "plain": "text",
}  # fmt: skip


def test_what_was_encoded_is_read_again() -> None:
    found = read_as(Outer, GOOD)
    assert found == Outer(
        3, True, Colour.RED, None, (Inner("a", 1),), {"x": [1.5, None]}, "text", []
    )
    assert read_as(Outer, json.loads(json.dumps(to_json(found)))) == found
    assert read_as(Outer, {**GOOD, "plain": False, "unknown": 1}).plain is False


def test_a_whole_answer_about_a_run_is_read_again() -> None:
    fold = RunFold()
    fold.add_all((begin(), sample(1), sample(2), end()))
    row = row_of(begin(), fold, "/x.jsonl", alive=False)
    said = details_of(ALL_SEEING, row, fold, None, RecordExtent(1, 1, 0, None), BEGAN)
    assert to_json(read_as(RunDetails, json.loads(json.dumps(to_json(said))))) == to_json(said)


@rows(
    "changed",
    [
        {"whole": 1.5}, {"whole": True}, {"whole": 2**70}, {"whole": None}, {"flag": 1},
        {"flag": "true"}, {"colour": "blue"}, {"colour": []}, {"inner": 7}, {"inner": {}},
        {"inner": {"name": "x", "size": float("nan")}}, {"inner": {"name": "x", "size": True}},
        {"inner": {"name": "x" * (LONGEST + 1)}}, {"many": "abc"}, {"many": [None]},
        {"many": [0] * 70_000}, {"named": []}, {"named": {"x": 1}}, {"named": {"x": ["1"]}},
        {"named": {"x" * (LONGEST + 1): []}}, {"plain": []}, {"plain": float("inf")},
    ],
)  # fmt: skip
def test_anything_else_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(Wrong):
        read_as(Outer, {**GOOD, **changed})


@rows("value", [None, [], "x", 7, {"whole": 3}])
def test_what_is_no_object_or_lacks_a_field_is_refused(value: object) -> None:
    with pytest.raises(Wrong):
        read_as(Outer, value)
