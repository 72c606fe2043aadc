"""Curves of logged values: what a record gets of them, and what is folded from its lines."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.cli.show.runs.curves import blocks
from andon.model.run.record import MOST_LINE_BYTES, RunCurve, RunEnd, RunEvent, RunLogged, RunState
from andon.model.run.wire import line_from_json, line_to_text
from andon.runs.record import RunOutcome, RunRecorder
from andon.runs.rules.curves import (
    MOST_NAMES,
    MOST_POINTS,
    MOST_WRITTEN,
    NOT_FINITE,
    REFUSED,
    WHOLE_CURVES,
    WRITTEN_VALUES,
    Buckets,
    LoggedCurves,
    LoggedWindow,
    ValueBucket,
)
from andon.runs.rules.fold import MOST_EXTREMES, RunFold, row_of
from andon.runs.rules.lines import RecordLines
from andon.runs.rules.measures import bests_of
from tests.support.run_parts import Lines
from tests.support.run_records import BEGAN, begin, end

VALUES = st.floats(width=64)
STEPS = st.none() | st.integers(-5, 1000).map(float)
LOGGED = st.lists(
    st.tuples(st.sampled_from(["loss", "lr", "é\n"]), VALUES, STEPS), min_size=1, max_size=200
)


def curves_of(*lines: RunLogged) -> dict[str, RunCurve]:
    found = LoggedCurves(BEGAN)
    found.add_all(lines)
    return found.result()


def written(lines: list[RunLogged], every: int = 50) -> list[RunLogged]:
    """The lines of a record, where so many calls are made between two writes."""
    window, out = LoggedWindow(), list[RunLogged]()
    for number, line in enumerate(lines, 1):
        window.add(line)
        if number % every == 0:
            out += window.take(float(number))
    return out + window.take(0.0)


@given(LOGGED, st.integers(1, 60))
def test_no_value_is_lost_and_none_is_made_up(
    logged: list[tuple[str, float, float | None]], every: int
) -> None:
    # Several are logged within one reading of the clock, as by a command whose output is read.
    lines = [RunLogged(BEGAN + n // 3, {name: v}, step) for n, (name, v, step) in enumerate(logged)]
    again = [line_from_json(json.loads(line_to_text(one))) for one in written(lines, every)]
    found = curves_of(*[one for one in again if isinstance(one, RunLogged)])
    for name in {name for name, _, _ in logged}:
        own = [value for given, value, _ in logged if given == name]
        finite = [value for value in own if math.isfinite(value)]
        curve = found[name]
        assert sum(curve.gaps) == len(own) - len(finite)
        assert len(curve.at) <= MOST_POINTS
        assert list(curve.at) == sorted(curve.at)
        if finite:
            assert curve.lowest is not None
            assert curve.highest is not None
            assert (curve.lowest.value, curve.highest.value) == (min(finite), max(finite))
            for low, mean, high in zip(curve.low, curve.mean, curve.high, strict=True):
                assert (low is None) == (mean is None) == (high is None)
                assert low is None or low <= mean <= high  # type: ignore[operator]


def test_every_bucket_has_as_many_additions_but_the_last() -> None:
    for most in (7, 8):
        found = Buckets()
        for number in range(1, 100):
            found.add(ValueBucket(float(number), None, 1.0, 1.0, 1.0, 1.0, 1), most)
            counts = [one.count for one in found.found]
            assert (sum(counts), counts[:-1]) == (number, [found.width] * (len(counts) - 1))
            assert 1 <= counts[-1] == found.filled <= found.width
            assert len(counts) <= most


@given(LOGGED)
def test_the_end_of_a_record_has_the_curves_that_its_lines_make(
    logged: list[tuple[str, float, float | None]],
) -> None:
    lines = Lines()
    recorder = RunRecorder(begin(), lines, None)
    recorder.start()
    for number, (name, value, step) in enumerate(logged):
        recorder.write(RunLogged(BEGAN + number, {name: value}, step))
    last = recorder.end(RunOutcome(RunState.SUCCEEDED))
    (again,) = RecordLines().feed(line_to_text(last).encode())
    fold = RunFold()
    fold.add_all(line_from_json(one) for one in lines.lines[:-1])
    assert isinstance(again, RunEnd)
    assert again.curves == fold.curves() == last.curves
    assert again.last_values == fold.last_values


def test_values_between_two_writes_are_joined_with_their_range() -> None:
    lines = [RunLogged(BEGAN + n / 1000, {"loss": float(n)}, n) for n in range(1000)]
    found = written(lines, every=1000)
    assert MOST_WRITTEN / 2 <= len(found) <= MOST_WRITTEN
    assert sum(one.spreads["loss"].count for one in found) == 1000
    assert (found[0].spreads["loss"].low, found[-1].values["loss"]) == (0.0, 999.0)
    assert found[-1].step == 999
    curve = curves_of(*found)["loss"]
    assert curve.mean[0] == pytest.approx(sum(range(64)) / 64)


def test_of_a_million_values_a_second_a_record_gets_one_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines, now = Lines(), [0.0]
    monkeypatch.setattr("andon.runs.record.time.monotonic", lambda: now[0])
    recorder = RunRecorder(begin(), lines, None)
    recorder.start()
    for number in range(20_000):
        now[0] = 10 + number / 10_000  # two seconds
        recorder.write(RunLogged(BEGAN, {"loss": 0.5, "lr": 0.1}, number))
    assert lines.puts == 1 + 2  # its begin; the first value at once, and the others a second on
    assert len(lines.of("log")) <= 1 + MOST_WRITTEN


def test_steps_that_go_back_are_told_where_they_do() -> None:
    steps = [0, 10, 20, 30, 0, 10, 20]
    lines = [RunLogged(BEGAN + n, {"loss": 1.0}, step) for n, step in enumerate(steps)]
    assert curves_of(*lines)["loss"].restarts == (4,)
    joined = curves_of(*written(lines, every=7))["loss"]
    assert joined.restarts == (4,)
    # of values with steps of their own, as of each epoch, none goes back
    mixed = [RunLogged(BEGAN + n, {"ab"[n % 2]: 1.0}, n if n % 2 else n // 10) for n in range(50)]
    assert {one.restarts for one in curves_of(*written(mixed)).values()} == {()}


def test_values_of_one_moment_keep_their_order() -> None:
    steps = [1, 1, 2, 2, 3]
    lines = [RunLogged(BEGAN, {"loss": float(n)}, step) for n, step in enumerate(steps)]
    curve = curves_of(*written(lines))["loss"]
    assert (curve.last, curve.steps) == ((0.0, 1.0, 2.0, 3.0, 4.0), (1, 1, 2, 2, 3))
    assert curve.restarts == ()


def test_what_is_no_number_is_a_gap_with_a_count() -> None:
    values = [1.0, math.nan, math.inf, 2.0]
    lines = [RunLogged(BEGAN + n, {"loss": value}, n) for n, value in enumerate(values)]
    curve = curves_of(*written(lines))["loss"]
    assert curve.last == (1.0, None, None, 2.0)
    assert curve.gaps == (0, 1, 1, 0)
    assert curve.lowest is not None
    assert (curve.lowest.value, curve.lowest.step) == (1.0, 0)


def test_names_beyond_the_most_are_refused_by_name_once() -> None:
    window = LoggedWindow()
    assert window.add(RunLogged(BEGAN, dict.fromkeys(map(str, range(MOST_NAMES)), 1.0))) is None
    refused = window.add(RunLogged(BEGAN, {"one": 1.0, "two": 2.0, "0": 3.0}))
    assert refused == RunEvent(BEGAN, REFUSED, {"names": "one, two", "most": MOST_NAMES})
    assert window.add(RunLogged(BEGAN, {"one": 1.0})) is None
    several = [window.add(RunLogged(BEGAN, {f"more {n}": 1.0})) for n in range(100)]
    assert len([one for one in several if one is not None]) == 8  # ten are named at most
    assert {name for line in window.take(0.0) for name in line.values} == set(
        map(str, range(MOST_NAMES))
    )


def test_a_thousand_names_make_coarse_curves_and_a_line_that_can_be_read() -> None:
    found = LoggedCurves(BEGAN)
    for number in range(600):
        values = {f"name {n}": n / 7 + number for n in range(MOST_NAMES if number % 5 else 30)}
        found.add(RunLogged(BEGAN + number, values, number))
    curves = found.result()
    assert sum(len(one.at) for one in curves.values()) <= MOST_POINTS * WHOLE_CURVES
    text = line_to_text(end(curves=curves))
    assert len(text) < MOST_LINE_BYTES
    (again,) = RecordLines().feed(text.encode())
    assert isinstance(again, RunEnd)
    assert again.curves == curves


def test_many_names_at_once_have_a_bucket_each() -> None:
    names = [f"n{n}" for n in range(WRITTEN_VALUES)]
    lines = [RunLogged(BEGAN + n, dict.fromkeys(names, float(n)), n) for n in range(20)]
    found = written(lines)
    assert sum(len(one.values) for one in found) <= 2 * WRITTEN_VALUES
    assert all(len(one.values) == len(names) for one in found)


def test_a_value_that_is_no_number_is_told_once_for_each_name() -> None:
    lines = Lines()
    recorder = RunRecorder(begin(), lines, None)
    for step, text in enumerate(["nan", "inf", "n/a"]):
        recorder.write(RunLogged(BEGAN, {"loss": math.nan}, step))
        recorder.write(RunEvent(BEGAN, NOT_FINITE, {"loss": text, "step": step}))
    assert [one["data"] for one in lines.of("event")] == [{"loss": "nan", "step": 0}]


@pytest.mark.parametrize(
    "wrong", [{"last": ()}, {"low": (1.0,)}, {"restarts": (2,)}, {"last": (1.0, "x")}]
)
def test_a_curve_that_does_not_fit_together_is_not_read(wrong: dict[str, object]) -> None:
    curve = {"at": (0.0, 1.0), "last": (1.0, 2.0), **wrong}
    text = json.loads(line_to_text(end()))
    text["curves"] = {"loss": curve}
    reader = RecordLines()
    assert list(reader.feed(json.dumps(text).encode() + b"\n")) == []
    assert reader.unreadable == 1


def test_a_curve_of_a_kind_that_changes_goes_on() -> None:
    lines = [RunLogged(BEGAN, {"n": 1}, 1), RunLogged(BEGAN + 1, {"n": 2.5}, 2)]
    assert curves_of(*lines)["n"].last == (1.0, 2.5)


def test_what_waits_is_in_the_end_of_a_record() -> None:
    recorder = RunRecorder(begin(), Lines(), None)
    recorder.start()
    for value in (3.0, 2.0, 1.0):
        recorder.write(RunLogged(BEGAN + 1, {"loss": value}, value))
    assert recorder.end(RunOutcome(RunState.SUCCEEDED)).last_values == {"loss": 1.0}


def test_a_run_that_another_process_goes_on_with_knows_its_names_and_steps() -> None:
    fold = RunFold()
    names = {f"n{number}": 1.0 for number in range(MOST_NAMES)}
    fold.add_all([begin(), RunLogged(BEGAN + 1, names, 100.0)])
    lines = Lines()
    recorder = RunRecorder(begin(), lines, None)
    recorder.go_on_from(fold)
    recorder.write(RunLogged(BEGAN + 2, {"n0": 1.0, "new": 1.0}, 5.0))
    curves = recorder.end(RunOutcome(RunState.SUCCEEDED)).curves
    assert "new" not in curves
    assert curves["n0"].restarts == (1,)
    assert [one["data"]["names"] for one in lines.of("event")] == ["new"]
    assert [one["restarts"] for one in lines.of("log")] == [1]


def test_a_row_has_the_extremes_of_the_first_names_and_the_best_by_the_name() -> None:
    fold = RunFold()
    for step, value in enumerate((0.5, 0.2, 0.9)):
        names = {"loss": value, "accuracy": value, **{f"n{n}": value for n in range(40)}}
        fold.add(RunLogged(BEGAN + step, names, step))
    row = row_of(begin(), fold, "", alive=False)
    assert len(row.extremes) == MOST_EXTREMES
    assert bests_of(row, "log.loss") == {"log.loss best": 0.2, "log.loss best at step": 1.0}
    assert bests_of(row, "log.accuracy")["log.accuracy best"] == 0.9
    assert bests_of(row, "log.accuracy", higher=False)["log.accuracy best"] == 0.2
    assert bests_of(row, "log.n39") == {}


def test_the_blocks_of_a_curve_are_the_last_of_each_part() -> None:
    rising = RunCurve(tuple(map(float, range(48))), tuple(map(float, range(48))))
    few = RunCurve((0.0, 1.0), (1.0, None))
    assert (len(blocks(rising)), blocks(rising)[-1]) == (24, "█")
    assert blocks(rising)[12] == blocks(rising, 48)[25]
    assert blocks(few) == blocks(few, 2)
