"""A request as people write it."""

import pytest

from andon.core.sharing.requests import parse_count, parse_memory, request_of
from andon.errors import Invalid
from andon.model.work import PlacementOrder
from andon.units import GIB, parse_bytes


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
     ("1024", 1024), (2048, 2048), ("512M", GIB // 2), (None, None)],
)  # fmt: skip
def test_sizes(text: float | str | None, size: int | None) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["0", "-1GiB", "lots", "10 GiBs", "", float("nan"), 1e30, True])
def test_what_is_no_size_is_refused(text: float | str) -> None:
    with pytest.raises(Invalid):
        parse_memory(text)


def test_names_may_be_listed_with_commas_or_repeated() -> None:
    asked = request_of((1, 1), models=["H100, A100", "T4"], devices="0,1", pack=True)
    assert asked.models == ("H100", "A100", "T4")
    assert asked.devices == ("0", "1")
    assert asked.layout is PlacementOrder.PACK
    with pytest.raises(Invalid):
        request_of((1, 1), priority=10_000)


def test_units_are_binary_unless_they_say_otherwise() -> None:
    assert parse_bytes("1k") == 1024
    assert parse_bytes("1kB") == 1000
