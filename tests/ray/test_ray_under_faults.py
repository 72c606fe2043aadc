"""Faults on a real Ray, with the times that they take to be seen; the later ones end nodes."""

import os
import signal
import subprocess
import sys
import time

import pytest

from andon.errors import Denied, Unavailable
from andon.model.job.cluster import ClusterJob
from andon.model.job.facts import JobState
from andon.testing.cluster_contract import ClusterContract
from tests.ray.conftest import RealRay, opened, typed

pytestmark = [pytest.mark.ray, pytest.mark.timeout(400)]

make = ClusterContract()._submission


def found(ray: RealRay, job: str) -> ClusterJob:
    return next(one for one in opened(ray.url).jobs(0.0) if one.id == job)


def tell(capsys: pytest.CaptureFixture[str], words: str, began: float) -> None:
    with capsys.disabled():
        print(f"{words} after {time.monotonic() - began:.1f} s")


def submitted(ray: RealRay, line: str, gpus: int) -> str:
    job = opened(ray.url).submit(make(line, gpus=gpus))
    ray.until(lambda: found(ray, job).state is JobState.RUNNING, "start of the job", 150.0)
    return job


def test_a_job_that_waits_is_stopped_though_ray_says_nothing(
    ray: RealRay, capsys: pytest.CaptureFixture[str]
) -> None:
    holders = [submitted(ray, "sleep 1000", 4), submitted(ray, "sleep 1000", 2)]
    job = opened(ray.url).submit(make("true", gpus=2))
    ray.until(lambda: found(ray, job).short_of_gpus, "its reason")
    began = time.monotonic()
    opened(ray.url).cancel([job])
    stopped = found(ray, job)
    tell(capsys, "job stopped while it waits: cancelled", began)
    assert (stopped.state, stopped.reason) == (
        JobState.CANCELLED,
        "stopping: Ray has not confirmed it",
    )
    opened(ray.url).cancel(holders)
    ray.until(lambda: all(found(ray, one).state.is_settled for one in holders), "their end")


def test_a_command_that_ignores_sigterm_is_killed(
    ray: RealRay, capsys: pytest.CaptureFixture[str]
) -> None:
    job = submitted(ray, "trap '' TERM; sleep 1000; sleep 1000", 1)
    time.sleep(2)  # it must have set its trap
    began = time.monotonic()
    opened(ray.url).cancel([job])
    ray.until(lambda: found(ray, job).state.is_settled, "end of the job")
    tell(capsys, "command that ignores SIGTERM: ended", began)
    assert found(ray, job).state is JobState.CANCELLED


def test_a_client_that_is_killed_while_it_follows_leaves_the_job_alone(ray: RealRay) -> None:
    job = submitted(ray, "echo begun; sleep 1000", 1)
    words = [sys.executable, "-m", "andon.cli", "logs", f"ray:{job}", "-f"]
    environment = {**ray.environment, "RAY_API_SERVER_ADDRESS": ray.url}
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"begun\n", client.communicate()
        client.kill()
    assert found(ray, job).state is JobState.RUNNING
    assert "begun" in typed(ray, "logs", f"ray:{job}").stdout
    opened(ray.url).cancel([job])
    ray.until(lambda: found(ray, job).state.is_settled, "end of the job")


def test_a_node_that_is_killed_is_silent_and_loses_its_job_once(
    ray: RealRay, capsys: pytest.CaptureFixture[str]
) -> None:
    job = submitted(ray, "sleep 1000", 4)
    (raylet,) = ray.processes("raylet/raylet", "--node-name=n2") or ray.processes("node_name=n2")
    os.kill(raylet, signal.SIGKILL)
    began = time.monotonic()

    def state() -> str:
        return opened(ray.url).nodes()[1].state

    ray.until(lambda: state() != "ready", "sign of the node", 60.0)
    tell(capsys, f"raylet killed: the node is {state()}", began)
    ray.until(lambda: state() == "dead", "end of the node", 60.0)
    tell(capsys, "raylet killed: the node is dead", began)
    ray.until(lambda: found(ray, job).state.is_settled, "end of the job", 120.0)
    tell(capsys, "raylet killed: its job is lost", began)
    assert found(ray, job).state is JobState.LOST


def test_a_head_that_is_killed_and_restarted_has_lost_its_jobs(
    ray: RealRay, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is left of the cluster before."""
    sent = typed(ray, "submit", "--on", "ray", "--gpus", "1", "--name", "h", "--", "sleep", "1000")
    name = sent.stdout.split()[-1]
    ray.until(lambda: "running" in typed(ray, "jobs").stdout, "start of the job")
    records = {path.name for path in (ray.folder / "state/andon/runs").iterdir()}
    ray.close()
    began = time.monotonic()
    with pytest.raises((Unavailable, Denied)):
        opened(ray.url).jobs(0.0)
    kept = typed(ray, "jobs")
    assert name in kept.stdout, "the last list is shown while it is away"
    ray.start_head()
    ray.until(lambda: len(ray.rows()) == 1, "the new head")
    tell(capsys, "head killed: restarted", began)
    lost = [line for line in typed(ray, "jobs", "--all").stdout.splitlines() if name in line]
    assert len(lost) == 1
    assert " lost " in lost[0]
    assert records <= {path.name for path in (ray.folder / "state/andon/runs").iterdir()}


def test_a_token_that_is_missing_or_wrong_is_said_and_not_shown(ray: RealRay) -> None:
    """Last: the cluster wants a token from here on."""
    ray.close()
    ray.environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a-secret-of-this-lab-" * 2}
    ray.start_head()
    ray.until(lambda: "n1" in typed(ray, "nodes", "--on", "ray").stdout, "the node, with the token")
    done = typed(ray, "run", "--on", "ray", "--gpus", "1", "--", "sh", "-c", "echo hello; exit 7")
    assert (done.returncode, done.stdout) == (7, "hello\n"), done.stderr
    for token, words in (("", "Ray wants a token"), ("wrong-" * 8, "Ray refuses this token")):
        for command in (["nodes", "--on", "ray"], ["submit", "--on", "ray", "--", "true"]):
            refused = typed(ray, *command, RAY_AUTH_TOKEN=token)
            assert refused.returncode != 0
            assert words in refused.stderr
            assert "not known" not in refused.stderr, "it was not sent"
            assert not token or token not in refused.stderr
