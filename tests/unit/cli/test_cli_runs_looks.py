"""How runs look in a terminal: the list, one run, its latest lines, and drift."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from andon.cli.show.runs.detail import render_run
from andon.cli.show.runs.drift import render_drift
from andon.cli.show.runs.listing import render_runs
from andon.cli.show.runs.tail import render_tail
from andon.cli.show.text import Text
from andon.model.run.record import (
    RunLine,
    RunState,
)
from andon.runs.files import RecordRead
from andon.runs.rules.baselines import baseline_of, drift
from andon.runs.rules.fold import RunFold, row_of
from andon.runs.rules.lines import RecentLines
from tests.support.run_records import BEGAN, FULL, HAPPENINGS, begin, end, sample, used
from tests.support.snapshots import assert_golden


def painted(lines: Iterator[Text] | list[Text]) -> str:
    return "".join(line.paint(False) + "\n" for line in lines)


def folded(*lines: RunLine) -> RunFold:
    fold = RunFold()
    fold.add_all(lines)
    return fold


def read_of(
    fold: RunFold, size: int, unreadable: int = 0, problem: str | None = None
) -> RecordRead:
    path = Path("/state/train.jsonl")
    return RecordRead(path, FULL, fold, False, size, BEGAN, "ada", unreadable, problem)


@pytest.mark.parametrize("width", [80, 120, 160])
def test_the_list_looks_as_drawn(width: int) -> None:
    rows = []
    for number, state in enumerate(RunState):
        first = begin(id=f"aaaabbb{number}", name=f"train-{state}", at=BEGAN - number * 86_400)
        last = [] if state in (RunState.RUNNING, RunState.LOST) else [end(state=state)]
        fold = folded(first, sample(1), *last)
        rows.append(row_of(first, fold, "/r.jsonl", state is RunState.RUNNING))
    first = begin(name="sim.py", simulated=True, rank=1, tags=("paper", "best"), devices=())
    rows.append(row_of(first, folded(first, end(summary={})), "/r.jsonl", alive=False))
    assert_golden(f"runs-{width}.txt", painted(render_runs(rows, BEGAN + 3700, width)))


def test_of_many_machines_the_node_comes_first() -> None:
    row = row_of(FULL, folded(FULL, *HAPPENINGS), "/r.jsonl", alive=True)
    (head, line) = painted(render_runs([row], BEGAN + 60, 60, of_nodes=True)).splitlines()
    assert head.split()[:2] == ["NODE", "RUN"]
    assert line.split()[:2] == [row.node, row.id]


def test_a_run_looks_as_drawn() -> None:
    last = end(
        state=RunState.FAILED, exit_code=1, message="it broke", dropped=3, last_values={"loss": 0.5}
    )
    fold = folded(FULL, *HAPPENINGS, last)
    row = row_of(FULL, fold, "/state/train.jsonl", alive=False)
    read = read_of(fold, 5_000_000, 2, "event is missing")
    assert_golden("run.txt", painted(render_run(row, read, BEGAN + 99, 100)))


def test_a_lost_run_looks_as_drawn() -> None:
    fold = folded(FULL, *HAPPENINGS)
    row = row_of(FULL, fold, "/state/train.jsonl", alive=False)
    read = read_of(fold, 70_000_000)
    assert_golden("run-lost.txt", painted(render_run(row, read, BEGAN + 99, 100)))


@pytest.mark.parametrize("width", [80, 120])
def test_the_tail_looks_as_drawn(width: int) -> None:
    recent = RecentLines(15)
    recent.add_all([FULL, *HAPPENINGS])
    text = painted(render_tail(recent, RunState.RUNNING, BEGAN + 99, width))
    assert_golden(f"runs-tail-{width}.txt", text)


def test_drift_looks_as_drawn() -> None:
    firsts = [begin(id=f"good{n}") for n in range(3)]
    good = [
        row_of(first, folded(first, end(duration_seconds=40.0 + n)), "/r", alive=False)
        for n, first in enumerate(firsts)
    ]
    first = begin(id="slow", devices=FULL.devices[:1])
    fold = folded(first, end(duration_seconds=60.0, summary={"GPU-a": used(20.0, 9000.0)}))
    rows = [row_of(first, fold, "/r", alive=False)]
    baseline = baseline_of("good", BEGAN, good)
    text = painted(render_drift(baseline, rows, drift(baseline, rows, 5.0), 100))
    assert_golden("runs-drift.txt", text)
