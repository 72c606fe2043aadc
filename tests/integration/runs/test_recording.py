"""Everything that makes a run makes the same record: command, program, callback, ranks."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY, need
from tests.integration.conftest import andon
from tests.integration.leasing import records
from tests.standin import StandIn
from tests.support.disks import disk, fill  # noqa: F401 - a fixture
from tests.support.waiting import wait_for

PYTHON = sys.executable
WATTS = 500

TRAINING = """
import os, andon
from andon import GpuMonitorCallback

alerts = []
hot = GpuMonitorCallback(name="monitor").with_interval_secs(0.2).with_thermal_threshold(30)
with andon.run("training", params={"lr": 0.1}, tags=["nightly"]) as run:
    with hot.on_alert(lambda alert: alerts.append((alert.message(), alert.severity())) or "stop"):
        step = 0
        while hot.step(step, loss=1 / (step + 1)):
            step += 1
        hot.run.event("stopped", step=step)
    run.event("epoch", number=1)
    with run.working_on("chunk 0", device=0):
        pass
    if os.fork() == 0:
        run.event("of a child")
        os._exit(0)
    os.wait()

@andon.recorded
def evaluate():
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")

try:
    evaluate()
except RuntimeError:
    print(alerts[0][0])
"""
RANK = """
import andon
with andon.run("ranks") as run:
    run.log(step=1, loss=0.5)
"""
KILLED = """
import os, andon
andon.run("killed").begin().event("last words")
os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def _node(node: StandIn, own_places: Path) -> None:
    for index in range(8):
        node.change(index, power_mw=WATTS * 1000, gpu_utilisation=0, temperature=40)


def by_name(state: Path) -> dict[str, list[dict[str, Any]]]:
    return {record[0]["name"]: record for record in records(state)}


def of(record: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [line for line in record if line["event"] == event]


@pytest.mark.parametrize("seconds", ["0", "1.3"])
def test_the_energy_of_a_short_run_is_its_own(tmp_path: Path, seconds: str) -> None:
    """A3: at 500 W all the time, 7 ms had the energy of the 130 ms up to the last reading."""
    assert andon("run", "--", "sleep", seconds).code == 0
    [record] = records(tmp_path / "state")
    last, [use] = record[-1], record[-1]["summary"].values()
    lasted = last["duration_seconds"]
    assert use["energy_joules"] == pytest.approx(WATTS * lasted, rel=0.15, abs=1.0)
    if lasted < 1.0:
        assert use["energy_source"] == "power", "an estimate"
    assert last["samples"] >= 1
    assert use["idle_share"] == 1.0
    if seconds != "0":  # the driver's own readings are 200 ms apart
        assert use["sm_active_percent"]["mean"] is not None, "between begin and end"
        assert use["idle_spells"]["source"] == "driver"


def test_a_program_a_callback_and_a_function_inside_a_command(tmp_path: Path) -> None:
    done = andon("run", "--gpus", "2", "--name", "all", "--", PYTHON, "-c", TRAINING)
    assert done.code == 0, done.err
    assert "is too hot: 40 °C (threshold 30 °C)" in done.out
    found = by_name(tmp_path / "state")
    begins = {name: record[0] for name, record in found.items()}
    assert {name: begin["kind"] for name, begin in begins.items()} == {
        "all": "command", "training": "code", "monitor": "callback", "evaluate": "code",
    }  # fmt: skip
    parents = {name: begin["parent"] for name, begin in begins.items()}
    outer, inner = begins["all"]["id"], begins["training"]["id"]
    assert parents == {"all": None, "training": outer, "monitor": inner, "evaluate": outer}
    devices = [device["uuid"] for device in begins["all"]["devices"]]
    assert all(
        {one["uuid"] for one in begin["devices"]} == set(devices) for begin in begins.values()
    )
    states = {name: record[-1]["state"] for name, record in found.items()}
    assert states == {**dict.fromkeys(found, "succeeded"), "evaluate": "device_out_of_memory"}
    assert found["evaluate"][-1]["out_of_memory"]["wanted_bytes"] == 2 * 2**30
    training = found["training"]
    assert (begins["training"]["params"], begins["training"]["tags"]) == ({"lr": 0.1}, ["nightly"])
    assert [line["name"] for line in of(training, "event")] == ["epoch"], "not the child's"
    assert [line["state"] for line in of(training, "item")] == ["start", "ok"]
    assert of(found["monitor"], "log")[0]["values"] == {"loss": 1.0}
    assert all(record[-1]["samples"] >= 1 for record in found.values())


def test_ranks_are_one_run_and_the_first_samples(tmp_path: Path) -> None:
    for rank in range(2):
        ours = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
        done = subprocess.run(
            [PYTHON, "-c", RANK], env={**os.environ, **ours}, stderr=subprocess.PIPE, text=True,
            check=True, timeout=120,
        )  # fmt: skip
        assert done.stderr.count("andon runs report ") == (rank == 0), done.stderr
    first, second = sorted(records(tmp_path / "state"), key=lambda record: record[0]["rank"])
    assert first[0]["group"] == second[0]["group"] is not None
    assert first[-1]["samples"] > 0
    assert (second[-1]["samples"], of(second, "sample")) == (0, [])
    assert "local rank 0 samples" in second[-1]["no_samples_reason"]
    assert of(second, "log"), "what the rank says is in its own record"


def test_a_program_that_is_killed_leaves_a_readable_record(tmp_path: Path) -> None:
    done = subprocess.run([PYTHON, "-c", KILLED], timeout=120)
    assert done.returncode == -signal.SIGKILL
    wait_for(lambda: any(of(record, "event") for record in records(tmp_path / "state")))
    [record] = records(tmp_path / "state")
    assert record[0]["event"] == "begin"
    assert not of(record, "end")


def test_a_full_disk_is_told_once_and_stops_nothing(disk: Path) -> None:  # noqa: F811
    fill(disk / "ballast")
    done = andon("run", "--telemetry-dir", str(disk / "runs"), "--", "echo", "ran")
    assert (done.code, done.out) == (0, "ran\n")
    assert done.err.count("the run is not recorded") == 1
    assert "No space left" in done.err


def test_a_folder_that_does_not_respond_keeps_no_command(tmp_path: Path) -> None:
    need("unshare", "mount", "mkfs.ext4", "fsfreeze", "truncate")
    if os.geteuid() != 0:
        pytest.skip("mounting and freezing a file system needs root")
    command = ["unshare", "--mount", PYTHON, "-m", "tests.integration.frozen_record", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=120)
    assert done.returncode == 0, done.stderr
    happened = json.loads(done.stdout)
    assert happened["stuck_writers"], "the folder took the record: this proves nothing"
    assert happened["returned_by_itself"]
    for one in (happened["command"], happened["program"]):
        assert (one["code"], one["out"]) == (0, "ran\n"), one
        assert "its folder has not responded within 1 s" in one["err"]
    assert happened["after_the_thaw"] == ["succeeded"] * 2, "it was only late"
