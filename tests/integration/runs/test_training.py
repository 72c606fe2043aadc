"""A training loop's record under trouble: inside `andon run`, ended by a signal, without a driver,
with a full disk. The loop here is a plain one; `make frameworks` has those of frameworks."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import andon
from tests.integration.leasing import records
from tests.standin import StandIn
from tests.standin.faults import hung
from tests.support.disks import disk, fill  # noqa: F401 - a fixture

LOOP = """
import sys, time
from andon.callbacks.training import TrainingMonitor

fit = TrainingMonitor(name="fit", interval_secs=0.2, thermal_threshold=30, action=ACTION)
fit.fit_begins(1000)
fit.note("epoch", number=0)
print("began", flush=True)
for step in range(STEPS):
    fit.step_begins(step)
    time.sleep(0.02)
    fit.step_ends(step, samples=4)
    if fit.hold():
        break
fit.logged(step, {"andon/mine": 1.0, "a/b": float("nan")})
print(step, fit.values(), flush=True)
fit.end()
"""


@pytest.fixture(autouse=True)
def _node(node: StandIn, own_places: Path) -> None:
    for index in range(8):
        node.change(index, power_mw=500_000, temperature=40)


def loop(steps: int, action: str | None = None) -> str:
    return LOOP.replace("STEPS", str(steps)).replace("ACTION", repr(action))


def found(state: Path) -> dict[str, list[dict[str, Any]]]:
    return {record[0]["kind"]: record for record in records(state)}


def test_inside_a_command_it_takes_the_samples_of_that_run(tmp_path: Path) -> None:
    program = loop(500, "stop")
    done = andon("run", "--gpus", "2", "--", sys.executable, "-c", program)
    assert done.code == 0, done.err
    outer, inner = found(tmp_path / "state")["command"], found(tmp_path / "state")["callback"]
    assert inner[0]["parent"] == outer[0]["id"]
    assert [line for line in inner if line["event"] == "sample"] == [], "nothing is sampled twice"
    assert inner[-1]["samples"] >= 1
    assert {one["energy_joules"] is not None for one in inner[-1]["summary"].values()} == {True}
    assert done.err.count("andon runs ") == 1, done.err
    assert int(done.out.split()[1]) < 499, "its alerts come from there too"


def test_a_signal_ends_the_record(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", loop(100_000)], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"began\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == -signal.SIGTERM
    (record,) = records(tmp_path / "state")
    assert (record[-1]["state"], record[-1]["message"]) == ("stopped", "stopped by SIGTERM")


def test_a_hung_driver_stops_no_loop(node: StandIn, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", loop(150)], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "began\n"
        with node.broken(hung()):
            assert running.stdout.readline().startswith("149 ")
        assert running.wait(60) == 0
    (record,) = records(tmp_path / "state")
    assert record[-1]["state"] == "succeeded"
    assert record[-1]["last_values"]["andon/mine"] == 1.0


def test_a_full_disk_stops_no_loop(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv("XDG_STATE_HOME", str(disk / "state"))
    fill(disk / "ballast")
    program = [sys.executable, "-c", loop(3)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=90, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert "the run is not recorded" in done.stderr


FAILED = """
from types import SimpleNamespace
from andon.callbacks.training import TrainingMonitor

fit = TrainingMonitor(name="fit")
fit.fit_begins(None)
fit.step_begins(0)
fit.step_ends(0)

def train_step(batch):
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")

train_step({"input_ids": SimpleNamespace(shape=(8, 2048))})
"""


def test_an_error_that_no_hook_is_told_of_ends_the_record_with_the_program(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FAILED], capture_output=True, timeout=90)
    assert done.returncode == 1
    (record,) = records(tmp_path / "state")
    assert record[-1]["state"] == "device_out_of_memory"
    (oom,) = [line["data"] for line in record if line.get("name") == "out_of_memory"]
    assert oom["batch_shape"] == {"input_ids": [8, 2048]}


CHILDREN = """
import multiprocessing, os, sys
from andon.callbacks.training import TrainingMonitor

def load(batches):
    batches.put(os.getpid())

def rank(fit, number):
    places = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2,
              "TORCHELASTIC_RUN_ID": "spawned"}
    fit.fit_begins(5, {name: str(value) for name, value in places.items()}, 2)
    for step in range(5):
        fit.step_begins(step)
        fit.step_ends(step)
    fit.end()

if __name__ == "__main__":
    fit = TrainingMonitor(name="fit")
    fit.fit_begins(5)
    for step in range(5):
        fit.step_begins(step)
        if step == 2 and os.fork() == 0:
            sys.exit(0)  # with what is called at the exit of a program
        fit.step_ends(step, samples=4)
    os.wait()
    forked, spawned = map(multiprocessing.get_context, ("fork", "spawn"))
    batches = forked.Queue()
    loader = forked.Process(target=load, args=(batches,))
    ranks = [spawned.Process(target=rank, args=(fit, number)) for number in range(2)]
    for one in (loader, *ranks):
        one.start()
    assert batches.get() == loader.pid
    for one in (loader, *ranks):
        one.join()
    fit.end()
"""


def test_forked_loaders_and_spawned_ranks_have_no_part_in_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the server that should be there takes the connection and says nothing."""
    (tmp_path / "train.py").write_text(CHILDREN)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        monkeypatch.setenv("ANDON_PORT", str(mute.getsockname()[1]))
        words = [sys.executable, str(tmp_path / "train.py")]
        done = subprocess.run(words, capture_output=True, text=True, timeout=90)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    made = records(tmp_path / "state")
    assert {record[0]["rank"] for record in made} == {None, 0, 1}
    assert len(made) == 3
    for record in made:
        assert [line["event"] for line in record].count("end") == 1
        assert record[-1]["state"] == "succeeded", record[-1]
        assert record[-1]["last_values"]["total_steps"] == 5
