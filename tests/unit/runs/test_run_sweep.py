"""The table of a sweep: rows by parameter, mean and spread over seeds, the best, the front."""

import pytest

from andon.cli.show.reports.sweep import listed, sweep_csv, sweep_grid
from andon.errors import Invalid
from andon.model.run.record import RunKind, RunRow, RunState
from andon.runs.rules.reports.sweep import mean_spread, sweep_table


def run(
    at: int, state: RunState = RunState.SUCCEEDED, energy: float = 1.0, **given: float
) -> RunRow:
    loss = given.pop("loss", None)
    return RunRow(
        f"r{at}", "tune", RunKind.JOB, state, "n", float(at), "p",
        duration_seconds=720.0, energy_joules=energy,
        params={"job": str(at), "attempt": 1, **given},
        last_values={} if loss is None else {"loss": loss},
    )  # fmt: skip


OOM = RunState.DEVICE_OUT_OF_MEMORY
SWEEP = [
    run(1, lr=0.1, seed=1, loss=0.60, energy=5.0),
    run(2, lr=0.1, seed=2, loss=0.70, energy=5.0),
    run(3, OOM, lr=0.1, seed=3, loss=9.0),
    run(4, lr=0.01, seed=1, loss=0.41, energy=9.0),
    run(5, lr=0.01, seed=2, loss=0.42, energy=9.0),
    run(6, lr=0.01, seed=3, loss=0.43, energy=9.0),
]


def test_seeds_are_one_row_with_mean_and_spread_and_failures_do_not_count() -> None:
    table = sweep_table(SWEEP, ["loss"])
    assert table is not None
    assert (table.params, table.over) == (("lr",), ("seed",))
    grid = sweep_grid(table)
    assert grid.columns[:3] == ("lr", "seed", "loss")
    best, other = grid.rows
    assert best[:3] == ("0.01", "1..3", "0.42 ± 0.01")
    assert best[-2:] == ("3 of 3", "best")
    assert other[:3] == ("0.1", "1..3", "0.65 ± 0.07")
    assert other[-2:] == ("2 of 3 (1 OOM)", "")


def test_the_front_of_two_measures_and_a_direction() -> None:
    table = sweep_table(SWEEP, ["loss", "energy"])
    assert table is not None
    assert [row.on_front for row in table.rows] == [True, True]  # neither beats the other
    worse = [*SWEEP, run(7, lr=1.0, seed=1, loss=0.9, energy=20.0)]
    table = sweep_table(worse, ["loss", "energy"])
    assert table is not None
    assert [row.on_front for row in table.rows] == [True, True, False]
    table = sweep_table(SWEEP, ["loss:max"])
    assert table is not None
    assert table.rows[0].params == {"lr": 0.1}
    assert table.rows[0].is_best


def test_a_job_that_was_tried_again_counts_once() -> None:
    again = run(7, lr=0.1, seed=3, loss=0.5)
    again = RunRow(
        **{name: getattr(again, name) for name in again.__struct_fields__}
        | {"params": {"job": "3", "attempt": 2, "lr": 0.1, "seed": 3}}
    )
    table = sweep_table([*SWEEP, again], ["loss"])
    assert table is not None
    assert [row.succeeded for row in table.rows] == [3, 3]


def test_what_the_mean_is_over_can_be_named() -> None:
    table = sweep_table(SWEEP, ["loss"], over=["lr"])
    assert table is not None
    assert table.params == ("seed",)
    with pytest.raises(Invalid, match="do not differ"):
        sweep_table(SWEEP, over=["batch"])
    with pytest.raises(Invalid, match="no run has"):
        sweep_table(SWEEP, ["accuracy"])
    assert sweep_table([run(1), run(2)]) is None


def test_rows_without_a_measure_come_last_and_nothing_is_zero() -> None:
    table = sweep_table([run(1, OOM, lr=1), run(2, lr=2, loss=3.0)], ["loss"])
    assert table is not None
    assert [row.params["lr"] for row in table.rows] == [2, 1]
    assert sweep_grid(table).rows[1][1] == "–"
    assert ",,," in sweep_csv(table)


def test_numbers_of_a_column() -> None:
    assert mean_spread([1.0]).deviation is None
    assert mean_spread([1.0, 3.0]).deviation == pytest.approx(2**0.5)
    diverged = mean_spread([1e200, -1e200])
    assert diverged.mean == 0.0
    assert diverged.deviation == pytest.approx(2**0.5 * 1e200)
    assert mean_spread([1.7e308, 1.7e308]).mean == pytest.approx(1.7e308)
    assert mean_spread([1.7e308, -1.7e308]).deviation is None, "it is beyond any number"
    assert listed((1, 2, 3)) == "1..3"
    assert listed((1, 3)) == "1, 3"
    assert listed(("a", "b", "c", "d", "e")) == "a, b, c, d and 1 more"
