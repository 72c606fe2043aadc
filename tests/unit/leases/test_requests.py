"""A request for devices: one table, and the same sentence in a shell, in Python and over REST."""

import inspect
from collections.abc import Callable
from typing import Any

import click
import pytest
from msgspec.structs import fields

import andon
from andon.cli.commands.share.run import run
from andon.cli.device_request import request_from
from andon.errors import AndonError, Invalid
from andon.leases.rules.requests import (
    LeaseOptions,
    RequestOptions,
    options_from_rest,
    parse_count,
    parse_memory,
    rows,
)
from andon.model.job.device_request import DeviceRequest, PlacementOrder
from andon.units import GIB, parse_bytes
from andon.web.answers.requests import LeaseBody


@pytest.mark.parametrize(
    ("text", "count"),
    [("1", (1, 1)), (2, (2, 2)), ("2..4", (2, 4)), ("0", (0, 0)), (" 3 ", (3, 3))],
)
def test_counts(text: int | str, count: tuple[int, int]) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["-1", "", "x", "4..2", "1.5", "1...2", "99999", True, -3, "٣"])
def test_what_is_no_count_is_refused(text: int | str) -> None:
    with pytest.raises(Invalid):
        parse_count(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("10GiB", 10 * GIB), ("10G", 10 * GIB), ("80GB", 80 * 10**9), ("1.5 gib", 3 * GIB // 2),
     ("1024B", 1024), (" 2048 b ", 2048), ("512M", GIB // 2), (None, None)],
)  # fmt: skip
def test_sizes(text: str | None, size: int | None) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["0GiB", "-1GiB", "lots", "10 GiBs", "", "nan", "9e9G", True])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(Invalid) as refused:
        parse_memory(text)
    assert "GiB" in refused.value.hint


@pytest.mark.parametrize("number", ["90000", " 20000 ", "1.5", 90000, 1.5, 0, "0"])
def test_a_size_without_a_unit_is_refused_with_a_hint(number: object) -> None:
    with pytest.raises(Invalid, match="has no unit") as refused:
        parse_memory(number)
    assert f"{str(number).strip()}GiB" in refused.value.hint


def test_names_may_be_listed_with_commas_or_repeated() -> None:
    asked = RequestOptions(model=["H100, A100", "T4"], devices="0,1", pack=True).request()
    assert asked.models == ("H100", "A100", "T4")
    assert asked.devices == ("0", "1")
    assert asked.layout is PlacementOrder.PACK


def test_units_are_binary_unless_they_say_otherwise() -> None:
    assert parse_bytes("1k") == 1024
    assert parse_bytes("1kB") == 1000


# The same everywhere.


def by_shell(given: dict[str, Any]) -> DeviceRequest:
    """What `andon run` makes of typed options."""
    typed: list[str] = []
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        typed += [option] if value is True else [option, str(value)]
    with run.make_context("run", [*typed, "--", "true"]) as context:
        return request_from(context.params)


def by_python(given: dict[str, Any]) -> DeviceRequest:
    return LeaseOptions(**given).request()


def by_rest(given: dict[str, Any]) -> DeviceRequest:
    names = {row.name: row.rest.name for row in rows(LeaseOptions) if row.rest is not None}
    body = {names[name]: value for name, value in given.items()}
    for name in ("models", "labels", "devices", "exclude", "prefer"):
        if name in body:
            body[name] = [body[name]]
    return options_from_rest(dict(LeaseBody(**body))).request()


SURFACES: list[Callable[[dict[str, Any]], DeviceRequest]] = [by_shell, by_python, by_rest]


@pytest.mark.parametrize(
    "given",
    [
        {"memory": "90000"}, {"memory": "lots"}, {"memory": "0GiB"}, {"gpus": "many"},
        {"gpus": "4..2"}, {"gpus": "5000"}, {"shared": True}, {"priority": 1001},
    ],
    ids=str,
)  # fmt: skip
def test_a_mistake_gets_the_same_sentence_and_hint_everywhere(given: dict[str, Any]) -> None:
    said = set()
    for surface in SURFACES:
        with pytest.raises(Invalid) as refused:
            surface(given)
        said.add((refused.value.reason, refused.value.hint))
    assert len(said) == 1
    assert all(hint for _, hint in said)


@pytest.mark.parametrize(
    "given",
    [
        {}, {"gpus": "2..4"}, {"memory": "20GiB", "shared": True}, {"model": "H100,A100"},
        {"label": "fast"}, {"devices": "0,6:0"}, {"exclude": "1"}, {"prefer": "H100"},
        {"pack": True}, {"unbalanced": True}, {"priority": -5},
    ],
    ids=str,
)  # fmt: skip
def test_an_option_means_the_same_everywhere(given: dict[str, Any]) -> None:
    made = [surface(given) for surface in SURFACES]
    assert made[0] == made[1] == made[2]
    assert (made[0] == DeviceRequest()) is (not given)


def test_a_lease_in_python_refuses_a_size_without_a_unit_at_once() -> None:
    with pytest.raises(AndonError, match="has no unit"):
        andon.lease(memory=90000)  # type: ignore[arg-type]


def test_the_keywords_of_a_lease_are_those_of_the_table() -> None:
    taken = inspect.signature(andon.lease).parameters
    assert {n: p.default for n, p in taken.items()} == {
        one.name: one.default for one in fields(LeaseOptions)
    }
    assert [n for n, p in taken.items() if p.kind is p.POSITIONAL_OR_KEYWORD] == ["gpus", "memory"]


def test_the_options_of_the_shell_and_the_fields_of_rest_are_those_of_the_table() -> None:
    typed = {name for p in run.params if isinstance(p, click.Option) for name in p.opts}
    table = rows(LeaseOptions)
    assert {row.option for row in table if row.option} <= typed
    assert {row.short for row in table if row.short} <= typed
    fields_of_rest = {row.rest.name for row in table if row.rest is not None}
    assert set(LeaseBody.model_fields) == fields_of_rest | {"command", "whom"}


def test_what_may_take_a_device_from_a_stranger_is_not_offered_over_the_network() -> None:
    assert [row.name for row in rows(LeaseOptions) if row.rest is None] == [
        "even_if_used", "simulated",
    ]  # fmt: skip
