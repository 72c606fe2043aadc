"""The contract of clusters, and the commands, on a real Ray."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from andon.clusters.ray import RayCluster
from andon.jobs.clusters.desk import ClusterDesk
from andon.model.job.facts import JobState
from andon.testing.cluster_contract import ClusterContract
from tests.ray.conftest import RealRay, opened, typed
from tests.support.desk_contract import DeskContract, RefusingContract

pytestmark = [pytest.mark.ray, pytest.mark.timeout(400)]


class TestRealRay(ClusterContract):
    @pytest.fixture
    def reopen(self, ray: RealRay) -> Callable[[], RayCluster]:
        self._url, self._seconds = ray.url, 30.0
        return lambda: opened(self._url, self._seconds)

    @contextmanager
    def away(self) -> Iterator[None]:
        before, self._url = self._url, "http://127.0.0.1:9"
        yield
        self._url = before

    @contextmanager
    def slow(self) -> Iterator[None]:
        self._seconds = 0.001
        yield
        self._seconds = 30.0


class TestRealRayDesk(DeskContract, RefusingContract):
    one_node = 4

    def word(self, text: str) -> str:
        return f"ray:{text}"

    @pytest.fixture
    def desk(self, ray: RealRay) -> ClusterDesk:
        return ClusterDesk("ray", 30.0, lambda: opened(ray.url))


def test_a_job_sees_the_gpus_that_ray_gave_it_and_is_recorded(ray: RealRay) -> None:
    cluster, make = opened(ray.url), TestRealRay()._submission
    job = cluster.submit(make('echo "$CUDA_VISIBLE_DEVICES"; exit 3', gpus=2))
    ray.until(lambda: cluster.jobs(0.0)[-1].state.is_settled, "end of the job")
    desk = ClusterDesk("ray", 30.0, lambda: cluster)
    (found,) = [one for one in desk.latest().jobs if one.id == job]
    assert (found.state, found.exit_code) == (JobState.FAILED, 3)
    assert found.run is not None
    ray.until(lambda: cluster.log(job, 0, 1000).text.count("GPU-") == 2, "its output")


def test_the_commands_of_the_docs(ray: RealRay) -> None:
    done = typed(ray, "run", "--on", "ray", "--gpus", "1", "--", "sh", "-c", "echo hello; exit 7")
    assert (done.returncode, done.stdout) == (7, "hello\n"), done.stderr
    many = typed(ray, "submit", "--on", "ray", "--gpus", "8", "--", "true")
    assert many.returncode == 6
    assert "no node has 8 GPUs: the largest has 4 (n2)" in many.stderr
    shown = typed(ray, "nodes", "--on", "ray")
    assert [line.split()[:2] for line in shown.stdout.splitlines()[1:3]] == [
        ["n1", "2"],
        ["n2", "4"],
    ]
    sent = typed(ray, "submit", "--on", "ray", "--gpus", "2", "--", "sleep", "100")
    name = sent.stdout.split()[-1] if "ray:" in sent.stdout else sent.stdout.strip()
    assert typed(ray, "cancel", name).returncode == 0
    assert name in typed(ray, "jobs", "--all").stdout


def test_two_jobs_of_one_moment_do_not_wait_for_the_same_node(ray: RealRay) -> None:
    """Ray counts the GPUs of the first some seconds later."""
    sent = [typed(ray, "submit", "--on", "ray", "--gpus", gpus, "--", "sleep", "1000")
            for gpus in ("4", "2")]  # fmt: skip
    names = [one.stdout.strip().removeprefix("ray:") for one in sent]

    def are_running() -> bool:
        found = {job.id: job for job in opened(ray.url).jobs(0.0)}
        return all(found[name].state is JobState.RUNNING for name in names)

    ray.until(are_running, "start of both jobs", 150.0)
    where = {job.id: job.where for job in opened(ray.url).jobs(0.0)}
    assert [where[name] for name in names] == ["n2", "n1"]
