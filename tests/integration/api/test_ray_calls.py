"""`andon.ray` in a worker that a small module plays: leases, runs, and a worker that is killed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from andon.leases.own import own_leases
from tests.integration.leasing import records
from tests.standin.control import StandIn
from tests.standin.node import StandInProcess
from tests.support.homes import own_folders
from tests.support.waiting import wait_for

RAY = """
WORKER_MODE = 1
ids, share = [], 1.0
class worker:
    mode = 0
class context:
    worker = worker
    get_assigned_resources = staticmethod(lambda: {"GPU": share} if ids else {})
    get_job_id = staticmethod(lambda: "02000000")
is_initialized = lambda: True
get_runtime_context = lambda: context
get_gpu_ids = lambda: ids
"""
PROGRAM = """
import asyncio, json, os, pickle, sys, time
import andon
from andon import ray as andon_ray
assert "ray" not in sys.modules
import ray
from andon.leases.own import own_leases

def told(name, value):
    print(json.dumps({name: value}), flush=True)

def leases():
    return [[one.command, [[s.uuid, s.memory_bytes] for s in one.shares]] for one in own_leases()]

def given(*numbers, share=1.0):
    uuids = os.environ["UUIDS"].split()
    ray.ids, ray.share = [uuids[number] for number in numbers], share
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(ray.ids)

@andon_ray.task(name="embed")
def embed(seconds=0.0):
    time.sleep(seconds)
    return leases()

@andon_ray.task
def outer():
    return [embed(), leases()]

@andon_ray.task(refuse_busy=True)
def careful():
    return leases()

@andon_ray.task("waits")
async def waits():
    return leases()

@andon_ray.actor(name="model")
class Model:
    def __init__(self, size):
        self.size = size
    @andon_ray.task("predict")
    def predict(self):
        return leases()

told("driver", embed())
ray.worker.mode = 1
given(2)
told("one", embed())
told("after", leases())
told("lasting", embed(0.5))
told("nested", outer())
told("async", asyncio.run(waits()))
given(1, 2)
told("two", embed())
given(2, share=0.25)
told("share", embed())
given()
told("none", embed())
given(3)
try:
    careful()
except andon_ray.DeviceBusy as busy:
    again = pickle.loads(pickle.dumps(busy))
    told("busy", [str(again), list(again.mistakes)])
told("used", embed())
given(2)
told("free", careful())
model = Model(7)
told("actor", [model.size, model.predict()])
given(4)
embed(1000)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ray")


@pytest.fixture(autouse=True)
def own_state(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in own_folders(folder).items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def worker(folder: Path, library: Path) -> Iterator[tuple[dict[str, Any], "subprocess.Popen[str]"]]:
    (folder / "ray.py").write_text(RAY)
    control = StandIn(folder)
    devices = StandIn.devices(8)
    control.write(devices)
    control.change(3, processes=(StandInProcess(os.getpid(), 2 << 30),))
    environment = {
        **control.environment(library), **own_folders(folder),
        "ANDON_RUN": "drivrrun", "HOME": "/nonexistent", "PYTHONPATH": str(folder),
        "UUIDS": " ".join(one.uuid for one in devices),
    }  # fmt: skip
    found: dict[str, Any] = {"uuids": [one.uuid for one in devices]}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            while "actor" not in found and (line := process.stdout.readline()):
                found |= json.loads(line)
            yield found, process
        finally:
            process.kill()


def test_a_call_leases_what_ray_gave_it_and_nothing_else(worker: Any) -> None:
    found, uuids = worker[0], worker[0]["uuids"]
    one = [["ray task embed", [[uuids[2], None]]]]
    assert found["driver"] == [], "outside of a worker nothing changes"
    assert (found["one"], found["after"]) == (one, [])
    assert found["two"] == [["ray task embed", [[uuids[1], None], [uuids[2], None]]]]
    assert found["nested"] == 2 * [[["ray task outer", one[0][1]]]], "one lease for the worker"
    assert found["async"] == [["ray task waits", one[0][1]]]
    assert found["none"] == []


def test_a_part_of_a_gpu_is_a_shared_lease_of_its_memory(worker: Any) -> None:
    (lease,) = worker[0]["share"]
    ((uuid, size),) = lease[1]
    assert uuid == worker[0]["uuids"][2]
    (begun,) = [
        one["begin"] for one in runs() if "shared lease" in one["begin"]["allocation_method"]
    ]
    assert begun["allocation_method"].startswith("Ray: 0.25 of a GPU, a shared lease of ")
    assert size == begun["devices"][0]["memory_total_bytes"] // 4


def test_a_device_that_someone_else_uses_is_refused_and_named(worker: Any) -> None:
    reason, mistakes = worker[0]["busy"]
    assert reason == mistakes[0]
    assert reason.startswith("GPU 3: ")
    assert f"pid {os.getpid()}" in reason
    assert worker[0]["used"] != [], "without refuse_busy it is leased all the same"
    assert worker[0]["free"] != []


def test_each_call_is_a_run_of_the_driver(worker: Any) -> None:
    found = runs()
    names = [one["begin"]["name"] for one in found]
    assert sorted(set(names)) == ["careful", "embed", "model", "outer", "predict", "waits"]
    by = {one["begin"]["name"]: one for one in found}
    inner = next(one for one in found if one["begin"]["parent"] == by["outer"]["begin"]["id"])
    assert inner["begin"]["name"] == "embed"
    assert by["predict"]["begin"]["parent"] == by["model"]["begin"]["id"]
    assert by["outer"]["begin"]["parent"] == "drivrrun"
    short = next(one["end"] for one in found if one["end"] and not one["end"]["samples"])
    assert short["no_samples_reason"]
    lasting = next(one["end"] for one in found if one["end"] and one["end"]["samples"] >= 2)
    (used,) = lasting["summary"].values()
    assert (used["peak_memory_bytes"], used["energy_joules"] > 0) == (0, True)
    without = [one for one in found if not one["begin"]["devices"]]
    assert [one["end"]["no_samples_reason"] for one in without] == ["Ray gave it no GPU"]


def test_a_killed_worker_leaves_no_lease_and_its_run_is_lost(worker: Any) -> None:
    wait_for(lambda: len(_unended()) == 2, what="the last call, in the actor's lease")
    assert len(own_leases()) == 1
    worker[1].kill()
    worker[1].wait()
    assert own_leases() == []
    assert _unended() == ["embed", "model"]


def runs() -> list[dict[str, Any]]:
    """Returns the first and the last line of each record."""
    return [
        {"begin": lines[0], "end": lines[-1] if lines[-1]["event"] == "end" else None}
        for lines in records(Path(os.environ["XDG_STATE_HOME"]))
        if lines  # the last call may be about to write its first
    ]


def _unended() -> list[str]:
    return sorted(one["begin"]["name"] for one in runs() if one["end"] is None)
