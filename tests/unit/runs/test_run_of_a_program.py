"""A run of a program begins and ends whatever happens around it."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from andon.api import run as recording
from andon.host.clock import boot_seconds
from andon.model.run.record import RunState
from andon.runs.opening import remember
from andon.runs.record import RunRecorder
from andon.runs.rules.oom import Verdict


class Interrupted:
    """In place of a recorder: the first last reading is interrupted."""

    begin, is_own, ended = SimpleNamespace(id="bcdfghjk", rank=None), True, None

    def __init__(self) -> None:
        self.ends: list[tuple[RunState, float]] = []
        self._readings = 0

    def finish(
        self, judge: Callable[[list[Any]], Verdict], said: str, duration_seconds: float, **_: object
    ) -> None:
        self._readings += 1
        if self._readings == 1:
            raise KeyboardInterrupt
        self.ends.append((judge([]).end, duration_seconds))


def test_it_is_ended_when_the_program_exits() -> None:
    run, recorder = recording.run("training", quiet=True), Interrupted()
    run.recorder = cast("RunRecorder", recorder)
    recording._open.add(run)
    with pytest.raises(KeyboardInterrupt):
        run.end()
    recording._at_exit()
    recording._at_exit()
    assert [state for state, _ in recorder.ends] == [RunState.SUCCEEDED]


def test_its_duration_is_measured_on_a_clock_that_no_one_sets() -> None:
    run, recorder = recording.run("training", quiet=True), Interrupted()
    recorder._readings = 1
    run.recorder = cast("RunRecorder", recorder)
    run._began = boot_seconds() - 9.0
    run.end()
    ((_, seconds),) = recorder.ends
    assert 9.0 <= seconds < 60.0


def test_a_record_beside_a_program_whose_folder_was_removed_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    remember(Path("records/run.jsonl"))
