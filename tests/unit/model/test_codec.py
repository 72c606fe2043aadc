"""Every field that another program wrote is what it should be, or refused with its place."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct, field

from andon.errors import Invalid
from andon.model import wire, wire_in
from andon.model.alert import AlertId
from andon.model.codec import (
    LATEST,
    LONGEST,
    MOST_ITEMS,
    AnyNumber,
    Id,
    JsonDocument,
    Name,
    Number,
    Text,
    Texts,
    Time,
    Whole,
    Wrong,
    document,
    read,
    read_document,
    to_json,
)
from andon.model.device import MOST_DEVICES
from andon.model.lease_list import LeaseList
from andon.model.run.record import RunBegin
from andon.model.shapes import Doc, shape_of
from andon.node.remote.alerts import page_from_json
from andon.node.run_schemas import RecordExtent, RunDetails
from andon.node.watched.run_details import details_of
from andon.runs.rules.fold import RunFold, row_of
from tests.support.rows import rows
from tests.support.run_records import BEGAN, begin, end, sample

GOLDEN = Path(__file__).parents[2] / "golden"
WRONG: tuple[Any, ...] = (
    {"x": 1}, [1], True, "x", 5, -1, 0.5, 1e300, 10**400, float("nan"), "y" * 20_000,
)  # fmt: skip
FREE = {  # computed anew, or for people only
    "memory_percent", "power_percent", "memory_unattributed_bytes", "timestamp", "worst", "band",
    "program",
}  # fmt: skip
MADE = re.compile(r"(counts|entries)\b")  # from the alerts beside them, for pages
DOCUMENTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "status.json": wire_in.snapshot_from_json,
    "api/alerts.json": page_from_json,
    "api/leases.json": partial(read_document, LeaseList),
}


def golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / name).read_text(encoding="utf-8"))
    return found


def shape(value: Any) -> object:
    """The names of the fields, whatever their values are."""
    if isinstance(value, dict):
        return tuple((key, shape(item)) for key, item in sorted(value.items()))
    return frozenset(map(shape, value)) if isinstance(value, list) else None


def shortened(value: Any) -> Any:
    """With one item of each shape in every list, since every change reads the whole document."""
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shortened(item) for item in {shape(one): one for one in reversed(value)}.values()]
    return value


def places(value: Any, path: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Every node, with what holds it and what a message calls it."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        joint = "." if path and isinstance(key, str) else ""
        here = f"{path}{joint}{key}" if isinstance(key, str) else f"{path}[{key}]"
        yield value, key, here
        if isinstance(item, (dict, list)):
            yield from places(item, here)


def refusal(read: Callable[[dict[str, Any]], Any], document: dict[str, Any]) -> str | None:
    try:
        read(document)
    except (Invalid, Wrong) as exc:
        return str(exc)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_whatever_stands_in_a_field_it_is_read_or_refused_by_its_place(name: str) -> None:
    read, document = DOCUMENTS[name], shortened(golden(name))
    assert refusal(read, document) is None
    refused: set[str] = set()
    fields = {re.sub(r"\[\d+\]", "[]", place[2]): place for place in places(document)}.values()
    for holder, key, path in fields:
        before = holder[key]
        for wrong in WRONG:
            holder[key] = copy.copy(wrong)
            words = refusal(read, document)
            if words is not None:
                refused.add(path)
                assert path in words or path == "schema", (path, wrong, words)
                assert len(words) < 400, words
        holder[key] = before
    read_back = {path for *_, path in fields if path not in refused and not MADE.match(path)}
    taken = {path for path in read_back if path.rpartition(".")[2] not in FREE}
    assert taken == set(), "each field refuses something"


class Colour(StrEnum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


class Inner(Struct, frozen=True):
    """With a default."""

    name: Name
    size: Annotated[Number | None, Doc("may be missing")] = None


class Outer(Struct, frozen=True):
    """Every kind of field."""

    whole: Whole
    flag: bool
    colour: Colour
    inner: Inner | None
    many: Annotated[tuple[Inner, ...], Meta(max_length=MOST_ITEMS)]
    named: dict[Name, list[Number | None]]
    plain: str | bool | None
    more: list[str] = field(default_factory=list)


GOOD: dict[str, Any] = {
    "whole": 3, "flag": True, "colour": "red", "inner": None, "many": [{"name": "a", "size": 1}],
    "named": {"x": [1.5, None]}, "plain": "text",
}  # fmt: skip


class Renamed(JsonDocument, frozen=True):
    """A field with another name in JSON, and one without an order."""

    schema = "x/1"
    started: int = field(name="at")
    labels: frozenset[str] = frozenset()


def test_a_renamed_field_is_written_as_it_is_read_and_a_set_in_order() -> None:
    found = Renamed(5, frozenset("ba"))
    assert document(found) == {"schema": "x/1", "at": 5, "labels": ["a", "b"]}
    assert read_document(Renamed, document(found)) == found


class Ordered(Struct, frozen=True):
    """Another order in JSON, a property among the fields, and one field that is not in it."""

    json_members = ("last", "double", ...)
    json_without = ("secret",)
    first: int
    secret: str
    last: Inner

    @property
    def double(self) -> int:
        return 2 * self.first


def test_a_struct_names_what_its_json_has_and_in_which_order() -> None:
    found = to_json([Ordered(4, "x", Inner("a"))])
    assert json.dumps(found) == '[{"last": {"name": "a", "size": null}, "double": 8, "first": 4}]'
    assert [*shape_of(Ordered).members] == ["first", "last"]


def test_what_was_encoded_is_read_again() -> None:
    found = read(Outer, GOOD)
    assert found == Outer(
        3, True, Colour.RED, None, (Inner("a", 1),), {"x": [1.5, None]}, "text", []
    )
    assert read(Outer, json.loads(json.dumps(to_json(found)))) == found
    assert read(Outer, {**GOOD, "plain": False, "unknown": 1}).plain is False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"whole": 1.5}, "whole is 1.5, not a whole number"),
        ({"whole": True}, "whole is True, not a whole number"),
        ({"whole": "3"}, "whole is '3', not a whole number"),
        ({"whole": -1}, "whole is -1, which is out of range"),
        ({"whole": 2**70}, "whole is a huge number, which is out of range"),
        ({"whole": None}, "whole is None, not a whole number"),
        ({"flag": 1}, "flag is 1, neither true nor false"),
        ({"flag": "true"}, "flag is 'true', neither true nor false"),
        ({"colour": "green"}, "colour is 'green', not one of: red, blue"),
        ({"colour": []}, "colour is a list, not one of: red, blue"),
        ({"inner": 7}, "inner is 7, not a table"),
        ({"inner": {}}, "inner.name is missing"),
        ({"inner": {"name": None}}, "inner.name is None, not a string"),
        ({"inner": {"name": 5}}, "inner.name is 5, not a string"),
        ({"inner": {"name": "x" * 600}}, "inner.name has 600 characters, more than 512"),
        (
            {"inner": {"name": "x", "size": float("nan")}},
            "inner.size is nan, which is out of range",
        ),
        ({"inner": {"name": "x", "size": 1e300}}, "inner.size is 1e+300, which is out of range"),
        ({"inner": {"name": "x", "size": True}}, "inner.size is True, not a number"),
        ({"inner": {"name": "x", "size": "1"}}, "inner.size is '1', not a number"),
        ({"many": "abc"}, "many is 'abc', not a list"),
        ({"many": [None]}, "many[0] is None, not a table"),
        ({"many": [{"name": "a"}, {"name": []}]}, "many[1].name is a list, not a string"),
        ({"many": [{"name": "a"}] * 70_000}, "many has 70000 items, more than 65536"),
        ({"named": []}, "named is a list, not a table"),
        ({"named": {"x": 1}}, "named.x is 1, not a list"),
        ({"named": {"x": [1, "1"]}}, "named.x[1] is '1', not a number"),
        ({"named": {"y" * 600: []}}, f"named.{'y' * 40} has 600 characters, more than 512"),
        ({"named": {"\x1b[31m": 1}}, r"named.\x1b[31m is 1, not a list"),
        ({"plain": []}, "plain is a list, not a string"),
        ({"more": [7]}, "more[0] is 7, not a string"),
    ],
)
def test_the_first_field_that_is_wrong_is_named_with_its_place(
    changed: dict[str, object], words: str
) -> None:
    with pytest.raises(Wrong) as caught:
        read(Outer, {**GOOD, **changed})
    assert str(caught.value) == words


@rows("value", [None, [], "x", 7, {"whole": 3}])
def test_what_is_no_object_or_lacks_a_field_is_refused(value: object) -> None:
    with pytest.raises(Wrong):
        read(Outer, value)


@rows(
    "text",
    [
        '{"a": NaN}', '{"a": Infinity}', '{"a": 1e400}', r'{"a": "\ud800"}', '{"a": 1', "[1]", "",
        '{"a": ' + "[" * 100_000, "\ufeff{}", "{'a': 1}", '{"a": 1} x',
    ],
)  # fmt: skip
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        wire.loads(text, wire.ANSWER)


def test_a_name_that_stands_twice_is_read_once() -> None:
    assert wire.loads('{"a": 1, "a": 2}', wire.ANSWER) == {"a": 2}


def test_a_whole_answer_about_a_run_is_read_again() -> None:
    fold = RunFold()
    fold.add_all((begin(), sample(1), sample(2), end()))
    row = row_of(begin(), fold, "/x.jsonl", alive=False)
    said = details_of(row, fold, RecordExtent(1, 1, 0, None), BEGAN)
    assert to_json(read(RunDetails, json.loads(json.dumps(to_json(said))))) == to_json(said)


def of(kind: Any, value: object) -> Any:
    return read(kind, value)


@rows("number", [2.0**65, -(2.0**65), 10**400, float("inf"), "5", True, [], {}])
def test_what_is_no_number_is_refused(number: object) -> None:
    with pytest.raises(Wrong):
        of(Number, number)


@pytest.mark.parametrize("time", [-1.0, LATEST * 1.01, None, "now"])
def test_what_is_no_time_is_refused(time: object) -> None:
    with pytest.raises(Wrong):
        of(Time, time)


def test_what_is_right_is_read() -> None:
    assert of(Number, 2**63 - 1) == 2**63 - 1
    assert type(of(Number, 5)) is int
    assert type(of(Time, 5)) is float
    assert of(AnyNumber, 1e300) == 1e300
    assert of(Text, "ä" * LONGEST) == "ä" * LONGEST
    assert of(Texts, {"a": "b"}) == {"a": "b"}


@pytest.mark.parametrize("wrong", [1.5, True, -1])
def test_a_whole_number_is_whole_and_not_negative(wrong: object) -> None:
    with pytest.raises(Wrong):
        of(Whole, wrong)


@rows(
    "name",
    ["", ".", "..", "../x", "/etc/x", "a/b", "-rf", "a b", "a\n", "a\0", "é", "x" * 65, 7, None],
)
def test_what_could_be_more_than_an_id_is_none(name: object) -> None:
    with pytest.raises(Wrong):
        of(Id, name)


@rows("name", ["", "a\nb", "\x1b[31m", "\u202e", "x" * 513, 7, None])
def test_an_alerts_id_is_one_line(name: object) -> None:
    with pytest.raises(Wrong):
        of(AlertId, name)


@rows("name", ["k7qm2", "bcdfghjk", "run-3", "5f3a91c2", "12_3", "a.b"])
def test_an_id_is_read(name: str) -> None:
    assert of(Id, name) == name


def test_half_a_character_in_place_of_anything_is_a_wrong_field() -> None:
    class Part(Struct):
        count: int

    class Whole(Struct):
        number: int = 0
        names: tuple[Name, ...] = ()
        part: Part | None = None
        name: Name = ""

    for place in ("number", "names", "part", "name"):
        with pytest.raises(Wrong) as told:
            read(Whole, {place: "\ud800"})
        assert told.value.place == place


def test_a_run_has_as_many_devices_as_a_snapshot_may() -> None:
    line = to_json(begin())
    device = line["devices"][0]
    assert len(read(RunBegin, {**line, "devices": [device] * MOST_DEVICES}).devices) == MOST_DEVICES
    with pytest.raises(Wrong, match="more than 4096"):
        read(RunBegin, {**line, "devices": [device] * (MOST_DEVICES + 1)})
