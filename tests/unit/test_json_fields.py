"""Every field that another program wrote is what it should be, or refused with its place."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from andon.cli.alert_source import page_from_json
from andon.errors import Invalid
from andon.model import wire_in
from andon.model.json_fields import (
    LATEST,
    LONGEST,
    MOST,
    Wrong,
    alert_id_in,
    each_in,
    flag_in,
    id_in,
    inside,
    number_in,
    some_whole_in,
    text_in,
    texts_in,
    time_in,
)
from andon.model.lease_list import list_from_json
from tests.support.rows import rows

GOLDEN = Path(__file__).parents[1] / "golden"
WRONG: tuple[Any, ...] = (
    {"x": 1}, [1], True, "x", 5, -1, 0.5, 1e300, 10**400, float("nan"), "\ud800", "y" * 20_000,
)  # fmt: skip
FREE = {  # computed anew, or for people only
    "memory_percent", "power_percent", "memory_unattributed_bytes", "timestamp", "worst", "band",
    "program",
}  # fmt: skip
MADE = re.compile(r"(counts|entries)\b")  # from the alerts beside them, for pages
DOCUMENTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "status.json": wire_in.snapshot_from_json,
    "api/alerts.json": page_from_json,
    "api/leases.json": list_from_json,
}


def golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / name).read_text(encoding="utf-8"))
    return found


def places(value: Any, path: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Every node, with what holds it and what a message calls it."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(pairs):
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
    read, document = DOCUMENTS[name], golden(name)
    refused: set[str] = set()
    for holder, key, path in places(document):
        before = holder[key]
        for wrong in WRONG:
            holder[key] = copy.copy(wrong)
            words = refusal(read, document)
            if words is not None:
                refused.add(path)
                assert path in words or path == "schema", (path, wrong, words)
                assert len(words) < 400, words
        holder[key] = before
    every = {path for _, _, path in places(document)}
    read_back = {path for path in every - refused if not MADE.match(path)}
    taken = {path for path in read_back if path.rpartition(".")[2] not in FREE}
    assert taken == set(), "each field refuses something"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"devices": [{}, {}, {}, {"pci": 5}]}, "devices[3].pci is 5, not a string"),
        ({"devices": 7}, "devices is 7, not a list"),
        ({"devices": [None]}, "devices[0] is None, not a table"),
        ({"devices": [{"pci": "x" * 600}]}, "devices[0].pci has 600 characters, more than 512"),
        ({"devices": [{"pci": "\ud800"}]}, r"devices[0].pci is '\ud800', not a string"),
    ],
)
def test_a_mistake_is_named_with_its_place(value: dict[str, Any], words: str) -> None:
    with pytest.raises(Wrong) as caught:
        each_in(value, "devices", lambda one: text_in({"pci": "", **one}, "pci", 512))
    assert str(caught.value) == words


@rows("number", [MOST * 2, -MOST * 2, 10**400, float("inf"), "5", True, [], {}])
def test_what_is_no_number_is_refused(number: object) -> None:
    with pytest.raises(Wrong):
        number_in({"a": number}, "a")


@pytest.mark.parametrize("time", [-1.0, LATEST * 1.01, None, "now"])
def test_what_is_no_time_is_refused(time: object) -> None:
    with pytest.raises(Wrong):
        time_in({"a": time}, "a")


def test_what_is_right_is_read() -> None:
    value = {"n": 2**64 - 1, "t": 5, "s": "ä" * LONGEST, "f": True, "o": {"a": 1}, "x": {"a": "b"}}
    assert number_in(value, "n") == 2**64 - 1
    assert time_in(value, "t") == 5.0
    assert text_in(value, "s") == "ä" * LONGEST
    assert flag_in(value, "f") is True
    assert flag_in(value, "nothing", default=True) is True
    assert some_whole_in(value, "nothing") is None
    assert inside(value, "o", lambda table: number_in(table, "a")) == 1
    assert inside(value, "nothing", lambda table: table) is None
    assert texts_in(value, "x") == {"a": "b"}


@pytest.mark.parametrize("wrong", [1.5, True, -1])
def test_a_whole_number_is_whole_and_not_negative(wrong: object) -> None:
    with pytest.raises(Wrong):
        some_whole_in({"a": wrong}, "a")


@rows(
    "name",
    ["", ".", "..", "../x", "/etc/x", "a/b", "-rf", "a b", "a\n", "a\0", "é", "x" * 65, 7, None],
)
def test_what_could_be_more_than_an_id_is_none(name: object) -> None:
    with pytest.raises(Wrong):
        id_in({"id": name}, "id")


@rows("name", ["", "a\nb", "\x1b[31m", "\u202e", "x" * 513, 7, None])
def test_an_alerts_id_is_one_line(name: object) -> None:
    with pytest.raises(Wrong):
        alert_id_in({"id": name}, "id")


@rows("name", ["k7qm2", "bcdfghjk", "run-3", "5f3a91c2", "12_3", "a.b"])
def test_an_id_is_read(name: str) -> None:
    assert id_in({"id": name}, "id") == name
