"""Runs side by side: a verdict only where the numbers allow one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.errors import Invalid
from andon.model.run.record import RunKind, RunRow, RunState
from andon.runs.rules.measures import DURATION, ITEMS
from andon.runs.rules.reports.compare import (
    ComparedRun,
    RunSide,
    compare,
    scaling,
    sides_of,
    unique,
)


def side(label: str, values: list[float], measure: str = DURATION, devices: int = 1) -> RunSide:
    runs = (ComparedRun(f"{label}{n}", devices, {measure: v}) for n, v in enumerate(values))
    return RunSide(label, tuple(runs))


def verdict(one: list[float], other: list[float], measure: str = DURATION) -> str | None:
    found = compare([side("a", one, measure), side("b", other, measure)])
    return found.measures[0].sides[1].verdict


def test_a_verdict_needs_three_runs_a_side_and_ranges_that_do_not_meet() -> None:
    table = {
        ((10, 11, 12), (7, 8, 9)): "faster",
        ((7, 8, 9), (10, 11, 12)): "slower",
        ((10, 11, 12), (9, 10, 10)): "ranges meet",
        ((10, 11, 12), (12, 13, 14)): "ranges meet",
        ((10, 11), (1, 2, 3)): None,
        ((10, 11, 12), (1, 2)): None,
        ((10,), (1,)): None,
    }
    found = {sides: verdict([*map(float, sides[0])], [*map(float, sides[1])]) for sides in table}
    assert found == table


@pytest.mark.parametrize(
    ("measure", "lower", "higher"),
    [
        (ITEMS, "slower", "faster"),
        ("steps_per_second", "slower", "faster"),
        ("energy_joules", "less", "more"),
        ("log.loss", "lower", "higher"),
    ],
)
def test_each_measure_has_its_own_words(measure: str, lower: str, higher: str) -> None:
    assert verdict([4, 5, 6], [1, 2, 3], measure) == lower
    assert verdict([1, 2, 3], [4, 5, 6], measure) == higher


def test_the_numbers_are_there_without_a_verdict() -> None:
    found = compare([side("a", [10.0]), side("b", [12.0])]).measures[0].sides[1]
    assert found.spread is not None
    assert (found.spread.median, found.verdict) == (12.0, None)
    assert found.change == pytest.approx(0.2)


def test_a_percentage_changes_by_points() -> None:
    sides = [side("a", [5.0], "idle_percent"), side("b", [30.0], "idle_percent")]
    measure = compare(sides).measures[0]
    assert (measure.in_points, measure.sides[1].change) == (True, 25.0)


def row(name: str, at: float = 0.0, rank: int | None = None, **params: object) -> RunRow:
    state, kind = RunState.SUCCEEDED, RunKind.COMMAND
    return RunRow(f"{name}{at:.0f}", name, kind, state, "n", at, "p", rank=rank, params=params)


def test_runs_of_a_group_with_the_same_parameters_are_one_side() -> None:
    rows = [row("t", n, lr=lr, seed=1) for n, lr in enumerate((0.1, 0.2, 0.1, 0.2))]
    found = [(label, [one.began for one in side]) for label, side in sides_of(rows)]
    assert found == [("lr=0.1", [0.0, 2.0]), ("lr=0.2", [1.0, 3.0])]


def test_names_that_differ_are_in_the_label() -> None:
    assert [label for label, _ in sides_of([row("a"), row("b")])] == ["a", "b"]
    labels = [label for label, _ in sides_of([row("a", lr=1), row("b", lr=2)])]
    assert labels == ["a lr=1", "b lr=2"]


def test_ranks_of_one_job_are_compared_with_each_other() -> None:
    found = sides_of([row("t", 5, rank=1), row("t", 6, rank=0)])
    assert [label for label, _ in found] == ["rank 0", "rank 1"]


def test_the_same_label_twice_is_numbered() -> None:
    assert unique(["a", "b", "a"]) == ["a", "b", "a #2"]


def test_by_ranks_the_sides_and_still_compares_with_the_first_given() -> None:
    sides = [side(name, [loss], "log.loss") for name, loss in (("a", 3.0), ("b", 1.0), ("c", 2.0))]
    unknown = side("d", [1.0])
    found = compare([*sides, unknown], by="loss")
    assert [one.label for one in found.sides] == ["b", "c", "a", "d"]
    assert found.measures[0].name == "log.loss"
    assert [one.change for one in found.measures[0].sides][2] is None  # a itself
    assert found.by == "log.loss"


def test_by_something_unknown_says_what_is_known() -> None:
    with pytest.raises(Invalid) as raised:
        compare([side("a", [1.0], "log.loss")], by="accuracy")
    assert "loss" in raised.value.hint


def test_scaling_by_items_says_how_much_of_each_device_is_left() -> None:
    found = scaling(
        [side(f"{n}", [rate], ITEMS, n) for n, rate in ((4, 32.0), (1, 10.0), (2, 18.0))]
    )
    assert found is not None
    assert found.basis == ITEMS
    rows = [(row.devices, row.speed_up, row.efficiency) for row in found.rows]
    assert rows == [(1, 1.0, 1.0), (2, 1.8, 0.9), (4, 3.2, 0.8)]


def test_scaling_by_duration_where_there_are_no_items() -> None:
    found = scaling([side("1", [100.0], devices=1), side("2", [50.0], devices=2)])
    assert found is not None
    assert (found.basis, found.rows[1].speed_up, found.rows[1].efficiency) == (DURATION, 2.0, 1.0)


@pytest.mark.parametrize(
    "sides",
    [
        [side("a", [1.0]), side("b", [2.0])],
        [
            RunSide(
                "a", (ComparedRun("x", 1, {DURATION: 1.0}), ComparedRun("y", 2, {DURATION: 1.0}))
            )
        ],
        [side("a", [1.0]), side("b", [0.0], devices=2)],
        [side("on the CPU", [9.0], devices=0), side("a", [3.0]), side("b", [2.0], devices=2)],
        [side("a", [1.0]), side("b", [1.0], "energy_joules", devices=2)],
    ],
)
def test_no_scaling_without_different_numbers_of_devices_and_a_speed(sides: list[RunSide]) -> None:
    assert scaling(sides) is None


VALUES = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=5)


@given(VALUES, VALUES)
def test_a_verdict_is_never_of_ranges_that_meet(one: list[float], other: list[float]) -> None:
    found = verdict(one, other)
    if found == "faster":
        assert max(other) < min(one)
    if found == "slower":
        assert min(other) > max(one)
    if min(len(one), len(other)) < 3:
        assert found is None
