"""A run's record: sampled less often as it grows old, and complete when it ends."""

import json
from pathlib import Path
from typing import Any

import pytest

from andon.engine.running.runlog import RunLog, interval_at
from tests.support.snapshots import farm
from tests.support.web_parts import Hand


def lines(log: RunLog) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.path.read_text().splitlines()]


def test_what_came_before_the_end_is_in_the_record(tmp_path: Path) -> None:
    shown = farm()
    log = RunLog(tmp_path / "run.jsonl", [shown.devices[0].device.uuid])
    log.follow(Hand(shown, shown), first=None)
    log.end({"code": 0})
    found = lines(log)
    assert [line["event"] for line in found] == ["sample", "sample", "end"]
    assert (found[-1]["samples"], found[-1]["no_samples_reason"]) == (2, None)


def test_the_callers_own_reading_is_the_first_sample(tmp_path: Path) -> None:
    shown = farm()
    log = RunLog(tmp_path / "run.jsonl", [shown.devices[0].device.uuid])
    log.follow(Hand(), first=shown)
    log.end({})
    assert [line["event"] for line in lines(log)] == ["sample", "end"]
    assert log.latest_of_run() == [], "it was read before the run"


@pytest.mark.parametrize(
    ("age", "interval"), [(0.0, 1.0), (599.9, 1.0), (600.0, 2.0), (3600.0, 5.0), (1e9, 5.0)]
)
def test_an_old_run_is_sampled_less_often(age: float, interval: float) -> None:
    assert interval_at(age) == interval


def test_the_session_slows_down_with_the_run(tmp_path: Path) -> None:
    sampler, shown = Hand(), farm()
    log = RunLog(tmp_path / "run.jsonl", [])
    log._began -= 700.0
    log.follow(sampler, first=None)
    sampler.give(shown)
    log.end({})
    assert log._follower is not None
    assert log._follower.session.interval_seconds == 2.0
