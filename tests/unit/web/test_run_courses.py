"""The sparklines of the list of runs: utilisation in few points, of those that may be seen."""

from pathlib import Path

from andon.access.roles import ALL_SEEING
from andon.node.run_schemas import RunColumns
from andon.node.seen.runs import SeenRuns
from andon.node.watched.run_courses import BUDGET_SECONDS, CourseReader, course_of
from tests.support.run_records import write_record
from tests.support.served_runs import row_at, runs_of

NAME = "utilization_percent"


def columns(at: list[float], *lines: list[float | None]) -> RunColumns:
    return RunColumns(at, {f"gpu-{place}": {NAME: line} for place, line in enumerate(lines)})


def test_a_course_is_the_mean_of_the_devices_in_equal_spans() -> None:
    assert course_of(columns([0, 1, 2, 3], [0, 20, 40, 60], [100, 20, None, 80]), 2) == [35, 60]


def test_a_span_without_a_reading_is_unknown_and_not_zero() -> None:
    at = [0.0, 1, 2, 9]
    assert course_of(columns(at, [10, 20, 30, 40]), 4) == [20, None, None, 40]
    assert course_of(columns([0, 1], [None, 7])) == [None, 7]


def test_a_run_without_samples_or_of_one_has_an_empty_or_short_course() -> None:
    assert course_of(RunColumns([], {})) == []
    assert course_of(columns([0], [5])) == [5]


def test_what_is_not_read_in_time_is_left_for_the_next_request(tmp_path: Path) -> None:
    runs = runs_of([row_at(write_record(tmp_path / "train.jsonl"))])
    clock = iter([0.0, 2 * BUDGET_SECONDS]).__next__
    found = CourseReader(clock).of(
        ALL_SEEING, ("kqzvmtra", "another"), SeenRuns(runs, ALL_SEEING).details
    )
    assert (list(found.runs), found.left) == (["kqzvmtra"], 1)


def test_a_run_that_is_not_there_has_none(tmp_path: Path) -> None:
    runs = runs_of([row_at(write_record(tmp_path / "train.jsonl"))])
    found = SeenRuns(runs, ALL_SEEING).courses(("gone", "kqzvmtra"))
    assert (list(found.runs), found.left) == (["kqzvmtra"], 0)
    assert any(found.runs["kqzvmtra"])
