"""The load of `andon selftest --load`: bounded, polite, and judged by what it must raise."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from andon.checks.load import loaded
from andon.cli.commands.setup import selftest
from andon.doctor.rules.findings import CheckResult, Grade
from andon.doctor.rules.selftest.load import FREE_BYTES, Load, choose, judge_load
from andon.doctor.rules.selftest.plausibility import judge
from andon.doctor.rules.selftest.trials import Sampling, SelftestTrial
from andon.errors import Unavailable
from andon.leases.rules.verdict import available_by_readings
from andon.model.device import DeviceStatus, Process, ProcessKind, Snapshot, State
from andon.model.utilisation import SCHEDULABLE_IDLE_PERCENT
from andon.model.wire_in import snapshot_from_json
from andon.units import GIB
from tests.conftest import REPOSITORY
from tests.support.rows import rows
from tests.support.snapshots import AT, FakeSampler, h200, mig_board, uuid

BUSY = Load(uuid(0), 4711)


def node(*devices: Any) -> Snapshot:
    return Snapshot("node17", AT, devices=tuple(devices))


def looks(pid: int | None, **values: Any) -> list[Snapshot]:
    status = h200(0)
    assert status.sample is not None
    held = (Process(pid),) if pid else ()
    return [node(replace(status, sample=replace(status.sample, **values), processes=held))] * 3


def judged(load: Load = BUSY, pid: int | None = 4711, **during: Any) -> dict[str, CheckResult]:
    calm = looks(None, utilization_percent=0, power_watts=76.0, sm_active_percent=0.0)
    raised = {"utilization_percent": 100, "power_watts": 400.0, "sm_active_percent": 93.0}
    findings = judge_load(calm, looks(pid, **(raised | during)), load)
    return {str(finding.check): finding for finding in findings}


@rows(
    "count, busy, grade, words",
    [
        (3, 0, Grade.OK, "nothing is busy"),
        (3, 99, Grade.UNKNOWN, "at up to 99 % utilisation"),  # too few to say that it is frozen
        (6, 99, Grade.FAILURE, "busy, but no reading changes"),
    ],
)
def test_a_busy_device_is_not_called_idle(count: int, busy: int, grade: Grade, words: str) -> None:
    status = h200(0, utilization_percent=busy)
    past = [replace(node(status), at=AT + n) for n in range(count)]
    findings = judge(past, Sampling(count))
    (found,) = [one for one in findings if one.check is SelftestTrial.MOVEMENT]
    assert (found.grade, words in found.message) == (grade, True), found


def test_a_load_raises_what_it_must() -> None:
    found = judged()
    assert {finding.grade for finding in found.values()} == {Grade.OK}
    assert found["load_power"].message == "power rose from 76 to 400 W"
    assert found["load_sm_active"].message == "SM active rose from 0 to 93 %"


@pytest.mark.parametrize(
    ("during", "trial"),
    [
        ({"utilization_percent": 19}, SelftestTrial.LOAD_UTILIZATION),
        ({"power_watts": 80.9}, SelftestTrial.LOAD_POWER),
        ({"sm_active_percent": 4.0}, SelftestTrial.LOAD_SM_ACTIVE),
        ({"pid": 12}, SelftestTrial.LOAD_PROCESS),
        ({"pid": None}, SelftestTrial.LOAD_PROCESS),
    ],
)
def test_what_does_not_rise_is_told(during: Any, trial: SelftestTrial) -> None:
    found = judged(**during)
    assert [f.check for f in found.values() if f.grade is Grade.FAILURE] == [trial]


def test_what_the_device_does_not_give_is_not_checked() -> None:
    found = judged(sm_active_percent=None)
    assert found["load_sm_active"].grade is Grade.UNKNOWN


def test_in_a_pid_namespace_the_process_cannot_be_told() -> None:
    found = judged(replace(BUSY, own_pids=True), pid=99)
    assert found["load_process"].grade is Grade.UNKNOWN
    assert judged(replace(BUSY, own_pids=True))["load_process"].grade is Grade.OK


def test_no_load_is_said_and_is_no_failure() -> None:
    (found,) = judge_load([], [], Load(reason="no driver"))
    assert found.grade is Grade.UNKNOWN
    assert "no driver" in found.message


# Which device.


def chosen(snapshot: Snapshot) -> tuple[DeviceStatus | None, str]:
    found = available_by_readings(snapshot.devices, FREE_BYTES, SCHEDULABLE_IDLE_PERCENT)
    return choose(snapshot, {one.uuid for one in found})


def test_the_first_device_that_nobody_uses_is_taken() -> None:
    used = replace(h200(0), processes=(Process(1),))
    working = replace(h200(1), sample=replace(_sample(1), utilization_percent=40))
    full = replace(h200(2), sample=replace(_sample(2), memory_free_bytes=GIB))
    hidden = replace(h200(3), visible=False)
    lost = replace(h200(4), state=State.LOST)
    desktop = replace(h200(5), processes=(Process(2, ProcessKind.GRAPHICS),))
    device, reason = chosen(node(used, working, full, hidden, lost, desktop))
    assert device is not None
    assert device.device.index == 5
    assert reason == ""


def _sample(index: int) -> Any:
    return h200(index).sample


def test_nobodys_work_is_disturbed() -> None:
    device, reason = chosen(node(replace(h200(0), processes=(Process(1),))))
    assert device is None
    assert "in use" in reason


def test_simulated_and_foreign_devices_are_not_loaded() -> None:
    other = replace(h200(0), device=replace(h200(0).device, vendor="sim"))
    device, reason = chosen(node(other))
    assert device is None
    assert "NVIDIA" in reason


def test_a_divided_board_is_loaded_through_its_instance() -> None:
    board, used, empty = mig_board(0)
    assert empty.sample is not None
    empty = replace(empty, sample=replace(empty.sample, memory_free_bytes=39 * GIB))
    device, _ = chosen(node(board, used, empty))
    assert device is empty


# Put together.


@pytest.mark.process
def test_without_a_driver_it_says_so() -> None:
    sampler: Any = FakeSampler()
    during, found = selftest.under_load(sampler, looks(None)[0], {uuid(0)}, 5.0, 1.0)
    assert during == []
    assert "NVIDIA's CUDA driver library is not here" in found.reason


# What an H200 said, idle and under load.


def recorded(scene: str) -> Snapshot:
    path = REPOSITORY / "tests/recorded/nvidia/h200-580.159.04.json"
    return snapshot_from_json(json.loads(path.read_text())["snapshot"][scene])


def test_a_real_h200_is_plausible_and_follows_its_load() -> None:
    idle, busy = recorded("idle"), recorded("loaded")
    assert [f for f in judge([idle, busy], Sampling()) if f.grade is Grade.FAILURE] == []
    (device,) = busy.devices
    load = Load(device.device.uuid, device.processes[0].pid)
    found = {str(f.check): f.grade for f in judge_load([idle], [busy], load)}
    assert found["load_utilization"] is found["load_power"] is Grade.OK
    assert found["load_process"] is Grade.OK
    assert found["load_sm_active"] in (Grade.OK, Grade.UNKNOWN)


def test_a_busy_h200_would_be_left_alone_and_an_idle_one_taken() -> None:
    assert chosen(recorded("idle"))[0] is not None
    assert chosen(recorded("loaded"))[0] is None


@pytest.mark.process
def test_the_load_runs_no_file_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that another user wrote to: its modules have the names of Python's own."""
    ran = tmp_path / "ran"
    for name in ("subprocess", "ctypes", "struct"):
        (tmp_path / f"{name}.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unavailable), loaded("GPU-0", 0.1):
        pass
    assert not ran.exists()
