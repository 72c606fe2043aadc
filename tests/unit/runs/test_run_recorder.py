"""A run's record: sampled less often as it grows old, and complete when it ends."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from andon.explain.conditions.rulebook import Rulebook
from andon.model.device import Snapshot
from andon.model.request import RunAccount
from andon.model.run.record import RunEnd, RunState
from andon.model.run.wire import line_to_text
from andon.runs.alert_lines import RunAlerts
from andon.runs.header import new_id, record_path
from andon.runs.record import RunOutcome, RunRecorder, interval_at
from andon.runs.rules.lines import RecordLines
from tests.support.run_parts import BEGAN, Lines, begin, device
from tests.support.sharing_parts import gpu
from tests.support.web_parts import Hand

DONE = RunOutcome(RunState.SUCCEEDED, 0)


def at(seconds: float, *busy: int, **values: Any) -> Snapshot:
    return Snapshot("n", BEGAN + seconds, devices=tuple(
        gpu(index, busy=one, **values) for index, one in enumerate(busy)
    ))  # fmt: skip


def recorded(*snapshots: Snapshot, **more: Any) -> tuple[Lines, RunEnd]:
    lines, sampler = Lines(), Hand(*snapshots)
    recorder = RunRecorder(begin(device(0)), lines, sampler, **more)
    recorder.start()
    recorder.read_last()
    return lines, recorder.end(DONE)


def test_what_came_before_the_end_is_in_the_record_and_one_sample_at_the_very_end() -> None:
    lines, end = recorded(at(0.0, 50, 9), at(1.0, 70, 9))
    assert [line["event"] for line in lines.lines] == ["begin", *["sample"] * 3, "end"]
    assert [set(line["devices"]) for line in lines.of("sample")] == [{"GPU-0"}] * 3
    assert (end.samples, end.no_samples_reason) == (3, None)
    assert lines.closed
    assert lines.lines[-1]["summary"]["GPU-0"]["utilization_percent"]["max"] == 70


def test_every_line_can_be_read_again() -> None:
    _, end = recorded(at(0.0, 50, power_watts=300.0), at(1.0, 70, power_watts=300.0))
    again = list(RecordLines().feed(line_to_text(end).encode()))
    assert again == [replace(end, summary=again[0].summary)]  # type: ignore[union-attr]
    assert again[0].summary["GPU-0"]["energy_joules"] == 300.0  # type: ignore[union-attr]


def test_the_energy_counters_are_asked_for_at_begin_and_end() -> None:
    sampler = Hand(at(0.0, 50))
    recorder = RunRecorder(begin(), Lines(), sampler)
    recorder.start()
    recorder.read_last()
    assert sampler.accounts == [RunAccount.ENERGY, RunAccount.ENERGY]


def test_an_energy_counter_that_was_read_earlier_is_left_out() -> None:
    status = gpu(0, energy_joules=77.0)
    assert status.sample is not None
    older = replace(status, sample=replace(status.sample, read_at={"energy_joules": 0.5}))
    lines, _ = recorded(Snapshot("n", BEGAN, devices=(status,)),
                        Snapshot("n", BEGAN + 1, devices=(older,)))  # fmt: skip
    found = [line["devices"]["GPU-0"]["energy_joules"] for line in lines.of("sample")]
    assert found == [77.0, None, None]


def test_a_run_without_samples_says_why() -> None:
    lines = Lines()
    recorder = RunRecorder(begin(), lines, None, why_none="local rank 0 samples")
    recorder.start()
    recorder.read_last()
    end = recorder.end(DONE)
    assert (end.samples, end.no_samples_reason, end.series) == (0, "local rank 0 samples", None)
    assert [line["event"] for line in lines.lines] == ["begin", "end"]


def test_nothing_is_written_after_the_end() -> None:
    lines, end = recorded(at(0.0, 50))
    recorder = RunRecorder(begin(), lines, None)
    recorder.end(DONE)
    before = len(lines.lines)
    recorder.write(end)
    assert len(lines.lines) == before


def test_dropped_lines_are_counted_in_the_last_one() -> None:
    lines = Lines()
    lines.dropped = 3
    assert RunRecorder(begin(), lines, None).end(DONE).dropped == 3


@pytest.mark.parametrize(
    ("age", "interval"), [(0.0, 1.0), (599.9, 1.0), (600.0, 2.0), (3600.0, 5.0), (1e9, 5.0)]
)
def test_an_old_run_is_sampled_less_often(age: float, interval: float) -> None:
    assert interval_at(age) == interval


def test_the_session_slows_down_with_the_run() -> None:
    sampler = Hand(at(0.0, 50))
    recorder = RunRecorder(begin(), Lines(), sampler)
    recorder._began -= 700.0
    recorder.start()
    recorder.read_last()
    assert recorder._follower is not None
    assert recorder._follower.session.interval_seconds == 2.0


def test_a_leak_is_told_by_the_fullest_device() -> None:
    readings = [at(float(n), 50, used_gib=20 + 2 * n) for n in range(20)]
    recorder = RunRecorder(begin(device(0)), Lines(), Hand(*readings))
    for snapshot in readings:
        recorder.take(snapshot)
    assert recorder.growth() == "leak"
    assert recorder.memory_before_end()[0].used_bytes == 58 * 2**30


def test_alerts_on_its_devices_are_lines_once() -> None:
    """Both devices are hot and then cool; the run has one of them."""
    now = [0.0]
    alerts = RunAlerts(frozenset({"GPU-0"}), Rulebook, lambda: (BEGAN + now[0], 1000.0 + now[0]))
    found = []
    for second in range(0, 600, 5):
        now[0] = float(second)
        celsius = 99 if second < 200 else 40
        found += alerts.take(at(now[0], 99, 99, temperature_celsius=celsius))
    hot = [(line.state, line.level, line.device) for line in found if line.rule == "thermal"]
    assert hot == [("firing", "critical", "0"), ("resolved", "critical", "0")]
    assert {line.device for line in found} == {"0"}
    assert [line.at for line in found] == sorted(line.at for line in found)


def test_a_record_has_a_name_a_time_and_four_digits() -> None:
    path = record_path(Path("/x"), "a b/träin.py", 0.0)
    assert path.name.startswith("tr-in.py_19700101T000000Z_")
    assert len(path.stem.rsplit("_", 1)[1]) == 4
    assert record_path(Path("/x"), "///", 0.0).name.startswith("run_")


def test_a_record_gets_a_name_that_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([b"\0\1", b"\0\1", b"\0\2"])
    monkeypatch.setattr("os.urandom", lambda _: next(drawn))
    record_path(tmp_path, "x", 0.0).touch()
    found = record_path(tmp_path, "x", 0.0)
    assert found.name == "x_19700101T000000Z_0002.jsonl"


def test_an_id_is_eight_letters() -> None:
    found = {new_id() for _ in range(100)}
    assert len(found) == 100
    assert all(len(one) == 8 and one.isalpha() and one.islower() for one in found)
