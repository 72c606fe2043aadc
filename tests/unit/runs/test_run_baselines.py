"""Baselines: drift is said where numbers leave the range of good runs, and nowhere else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.errors import Conflict
from andon.model.codec import document, read
from andon.model.run.record import RunDevice, RunState
from andon.model.shapes import to_json
from andon.runs.rules.baselines import (
    DriftLine,
    DriftReport,
    RunBaseline,
    baseline_of,
    drift,
    other_devices,
)
from andon.runs.rules.measures import Order, values_of
from andon.testing.run_index_contract import AT, FIRST
from tests.support.rows import rows

GOOD = replace(FIRST, duration_seconds=100.0, energy_joules=1000.0, idle_share=0.1)


def runs(*seconds: float, **changed: Any) -> list[Any]:
    return [
        replace(GOOD, id=f"run{n}", duration_seconds=one, **changed)
        for n, one in enumerate(seconds)
    ]


def checked(before: list[Any], after: list[Any], percent: float = 5.0) -> dict[str, DriftLine]:
    lines = drift(baseline_of("good", AT, before), after, percent)
    return {line.measure.name: line for line in lines}


@rows(
    ("before", "after", "drifted"),
    [
        ((100,), (104,), False),
        ((100,), (106,), True),
        ((100,), (94,), True),  # faster is another speed, too
        ((100, 100, 120), (118,), False),  # off by more than 5 %, but such runs were good
        ((100, 101, 102), (110,), True),
        ((100, 101, 102), (101, 102, 140), False),  # the median is within
        ((100, 101, 102), (102, 110, 120), False),  # the ranges meet
        ((100, 101, 102), (108, 110, 120), True),
        ((100, 101, 102), (103, 104, 105), False),  # another range, within the tolerance
    ],
)
def test_when_the_duration_drifts(
    before: tuple[float, ...], after: tuple[float, ...], drifted: bool
) -> None:
    assert checked(runs(*before), runs(*after))["duration_seconds"].drifted is drifted


def test_shares_are_compared_in_points() -> None:
    small = checked(runs(1, idle_share=0.01), runs(1, idle_share=0.02))["idle_percent"]
    assert (round(small.change_percent or 0, 6), small.drifted) == (1.0, False)
    assert checked(runs(1, idle_share=0.1), runs(1, idle_share=0.2))["idle_percent"].drifted


def test_a_baseline_of_nothing_drifts_by_anything() -> None:
    line = checked(runs(1, energy_joules=0.0), runs(1, energy_joules=5.0))["energy_joules"]
    assert (line.change_percent, line.drifted) == (None, True)
    same = checked(runs(1, energy_joules=0.0), runs(1, energy_joules=0.0))["energy_joules"]
    assert not same.drifted


def test_what_one_side_does_not_know_is_not_compared() -> None:
    lines = checked(runs(1, energy_joules=None), runs(1, last_values={"acc": 1.0}))
    assert "energy_joules" not in lines
    assert "log.acc" not in lines
    assert "log.loss" not in lines
    assert "duration_seconds" in lines


def test_a_programs_own_values_drift_too() -> None:
    line = checked(runs(1), runs(1, last_values={"loss": 0.9}))["log.loss"]
    assert (line.measure.label, line.drifted) == ("loss", True)


def test_only_three_runs_on_each_side_give_an_order() -> None:
    few = checked(runs(1, 2, 3), runs(9, 9))["duration_seconds"]
    assert few.order is Order.UNKNOWN
    assert checked(runs(1, 2, 3), runs(9, 9, 9))["duration_seconds"].order is Order.HIGHER


@rows("state", [one for one in RunState if one is not RunState.SUCCEEDED])
def test_only_runs_that_succeeded_make_a_baseline(state: RunState) -> None:
    with pytest.raises(Conflict) as error:
        baseline_of("good", AT, runs(1, state=state))
    assert error.value.hint


def test_a_run_counts_once() -> None:
    assert len(baseline_of("good", AT, [GOOD, GOOD]).runs) == 1


def test_other_devices_are_said() -> None:
    baseline = baseline_of("good", AT, [GOOD])
    two = replace(GOOD, devices=(*GOOD.devices, RunDevice("GPU-z", 1, "1", "NVIDIA H200")))
    assert other_devices(baseline, [GOOD]) is None
    words = other_devices(baseline, [two])
    assert words == "other devices: 2 × H200; the baseline used 1 × H200"


def test_it_is_the_same_after_a_restart() -> None:
    baseline = baseline_of("good", AT, runs(1, 2, 3))
    assert read(RunBaseline, to_json(baseline)) == baseline


def test_the_answer_for_programs_says_whether_it_drifted() -> None:
    baseline = baseline_of("good", AT, runs(100))
    lines = drift(baseline, runs(200), 5.0)
    answer = document(DriftReport(baseline.name, ["run0"], 5.0, lines))
    assert (answer["schema"], answer["drifted"]) == ("andon.drift/1", True)
    assert {one["name"] for one in answer["measures"]} == set(values_of(GOOD))


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=5))
def test_no_run_of_the_baseline_itself_drifts(seconds: list[float]) -> None:
    before = runs(*seconds)
    for one in before:
        assert not any(line.drifted for line in checked(before, [one], 0.0).values())
