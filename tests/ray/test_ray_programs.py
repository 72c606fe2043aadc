"""Programs of Ray whose tasks are decorated, on a real one of two nodes."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from andon.leases.own import own_leases
from tests.integration.leasing import records
from tests.ray import programs
from tests.ray.conftest import BIN, PORT, RealRay, typed
from tests.standin.node import StandInProcess

pytestmark = [pytest.mark.ray, pytest.mark.timeout(400)]


@contextmanager
def driver(ray: RealRay, program: str, run: str) -> "Iterator[subprocess.Popen[str]]":
    environment = {**ray.environment, "RAY_ADDRESS": f"127.0.0.1:{PORT}", "ANDON_RUN": run}
    with subprocess.Popen(
        [str(BIN / "python"), "-c", program], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def lines_of(ray: RealRay, program: str, run: str = "drivrrun") -> list[str]:
    """Runs a driver to its end; returns its lines."""
    with driver(ray, program, run) as process:
        said, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors[-3000:]
        return said.splitlines()


def parts_of(ray: RealRay, run: str) -> list[list[dict[str, Any]]]:
    found = [lines for lines in records(ray.folder / "state") if lines]
    return [lines for lines in found if lines[0].get("parent") == run]


def test_the_records_of_tasks_on_two_nodes_sum_to_the_drivers(ray: RealRay) -> None:
    told = json.loads(lines_of(ray, programs.PARTS, "drivparts")[0])
    found = parts_of(ray, "drivparts")
    assert len(found) == 8
    assert {lines[0]["node"] for lines in found} == {"n1", "n2"}
    given = sorted(uuid for _, ids, _ in told for uuid in ids)
    assert given == sorted(lines[0]["devices"][0]["uuid"] for lines in found)
    assert all(lines[0]["lease"] and lines[-1]["state"] == "succeeded" for lines in found)
    seconds = sum(lines[-1]["duration_seconds"] for lines in found)
    driver_seconds = sum(one[0] for one in told)
    used = [one for lines in found for one in lines[-1]["summary"].values()]
    assert driver_seconds <= seconds < driver_seconds + 8 * 0.5
    assert sum(one["energy_joules"] for one in used) > 0
    assert all(one["peak_memory_bytes"] is not None for one in used)


def test_a_busy_device_is_refused_and_ray_tries_elsewhere(ray: RealRay) -> None:
    with subprocess.Popen(["sleep", "1000"]) as stranger:
        try:
            for place in (2, 3):  # two of the four of n2
                ray.standin.change(place, processes=(StandInProcess(stranger.pid, 2 << 30),))
            once, again = (json.loads(line) for line in lines_of(ray, programs.BUSY, "drivbusy"))
        finally:
            for place in (2, 3):
                ray.standin.change(place, processes=())
            stranger.kill()
    assert once[0] == "busy", once
    assert f"pid {stranger.pid}" in once[1]
    assert "GPU 2: " in once[1]
    assert again[0] == "again"
    names = [lines[0]["name"] for lines in parts_of(ray, "drivbusy")]
    assert names == ["embed", "embed"], "a call that was refused is no run"


def test_a_killed_worker_leaves_no_lease_and_a_lost_run(
    ray: RealRay, capsys: pytest.CaptureFixture[str]
) -> None:
    with driver(ray, programs.HELD, "drivheld") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("model ")
        ray.until(lambda: len(own_leases()) == 2, "leases of the task and the actor")
        shared = [one for lease in own_leases() for one in lease.shares if one.memory_bytes]
        assert len(shared) == 1, "half a GPU is a shared lease"
        (held,) = [one for one in own_leases() if one.command == "ray task held"]
        assert held.work is not None
        os.kill(held.work.pid, signal.SIGKILL)
        began = time.monotonic()
        ray.until(lambda: held.id not in {one.id for one in own_leases()}, "end of its lease")
        with capsys.disabled():
            print(f"worker killed: lease free after {time.monotonic() - began:.2f} s")
        said = iter(process.stdout.readline, "")  # Ray's own lines are between them
        assert "crashed\n" in said
        assert "killed\n" in said  # the actor, by ray.kill
        ray.until(lambda: own_leases() == [], "end of the actor's lease")
    ids = {lines[0]["id"]: lines[0]["name"] for lines in parts_of(ray, "drivheld")}
    assert sorted(ids.values()) == ["held", "model"]
    for one in ids:
        assert "lost" in typed(ray, "runs", "show", one).stdout


def test_the_idle_node_is_preferred(ray: RealRay) -> None:
    ray.standin.change(0, gpu_utilisation=80)
    try:
        found = lines_of(ray, programs.IDLE)
    finally:
        ray.standin.change(0, gpu_utilisation=0)
    assert found[1:] == ["3 n2 True", "5 DEFAULT"]
    assert found[0] in ("1 n2 True", "1 DEFAULT")
