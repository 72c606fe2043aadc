"""Parts are opened in the order of their need and closed in reverse, whatever fails."""

from collections.abc import Iterator

import pytest

from andon.app.parts import Part, in_order, instead, run_with

SEEN: list[str] = []


@pytest.fixture(autouse=True)
def seen() -> list[str]:
    SEEN.clear()
    return SEEN


def base(size: int) -> Iterator[int]:
    SEEN.append("base")
    yield size
    SEEN.append("base closed")


def wall(base: int) -> Iterator[str]:
    SEEN.append("wall")
    yield "w" * base
    SEEN.append("wall closed")


def roof(wall: str, chimney: str = "none") -> Iterator[str]:
    SEEN.append("roof")
    yield f"{wall} {chimney}"
    SEEN.append("roof closed")


def chimney() -> Iterator[str]:
    SEEN.append("chimney")
    yield "tall"
    SEEN.append("chimney closed")


def live(roof: str, size: int) -> tuple[str, int]:
    SEEN.append("live")
    return roof, size


def test_what_is_needed_is_opened_before_and_closed_after() -> None:
    assert run_with([roof, wall, base], live, size=3) == ("www none", 3)
    assert SEEN == ["base", "wall", "roof", "live", "roof closed", "wall closed", "base closed"]


def test_a_need_with_a_default_is_given_where_the_list_has_it() -> None:
    assert run_with([base, wall, roof, chimney], live, size=1) == ("w tall", 1)
    assert SEEN.index("chimney") < SEEN.index("roof")


def test_parts_that_do_not_need_each_other_keep_the_order_of_the_list() -> None:
    assert in_order([chimney, base, wall], {"size"}) == [chimney, base, wall]
    assert in_order([base, wall, chimney], {"size"}) == [base, wall, chimney]


def test_a_part_that_cannot_be_opened_closes_those_before_it() -> None:
    def wall(base: int) -> Iterator[str]:
        raise ValueError("no stones")
        yield ""

    with pytest.raises(ValueError, match="no stones"):
        run_with([base, wall, roof], live, size=1)
    assert SEEN == ["base", "base closed"]


def test_a_part_that_cannot_be_closed_keeps_no_other_open() -> None:
    def wall(base: int) -> Iterator[str]:
        yield ""
        raise ValueError("it leans")

    with pytest.raises(ValueError, match="it leans"):
        run_with([base, wall, roof], live, size=1)
    assert SEEN[-2:] == ["roof closed", "base closed"]


def test_an_interrupt_closes_all() -> None:
    def run(roof: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_with([base, wall, roof], run, size=1)
    assert SEEN[-3:] == ["roof closed", "wall closed", "base closed"]


def test_mistakes_in_a_list_are_named_before_anything_is_opened() -> None:
    def earth(sky: int) -> Iterator[int]:
        yield 1

    def sky(earth: int) -> Iterator[int]:
        yield 1

    mistakes: dict[str, tuple[list[Part], dict[str, object]]] = {
        "wall needs base, which no part of the list is": ([wall, roof], {"size": 1}),
        "live needs size, which no part of the list is": ([chimney, roof, wall], {"base": 1}),
        "parts need each other: earth, sky": ([earth, sky], {}),
        "several parts are named base": ([base, wall, base], {"size": 1}),
    }
    for words, (parts, given) in mistakes.items():
        with pytest.raises(TypeError, match=words):
            run_with(parts, live, **given)
    assert SEEN == []


def test_a_part_takes_the_place_of_another() -> None:
    stones = wall

    def glass() -> Iterator[str]:
        yield "glass"

    glass.__name__ = "wall"
    assert instead([base, stones, roof], glass) == (base, glass, roof)
    with pytest.raises(ValueError, match="not in list"):
        instead([base, roof], glass)


class Door:
    def close(self) -> None:
        SEEN.append("door closed")


def door(size: int) -> Door | None:
    return Door() if size else None


@pytest.mark.parametrize(("size", "closed"), [(1, ["door closed"]), (0, [])])
def test_what_a_part_returns_is_closed_at_the_end(size: int, closed: list[str]) -> None:
    def run(door: Door | None) -> bool:
        return door is not None and not SEEN

    assert run_with([door], run, size=size) == bool(size)
    assert closed == SEEN
