"""The contract of desks, on the queue, the fake cluster, a server's poller and all together; the
integration tests have real ones."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.clusters.poller import ClusterPoller
from andon.jobs.desk import Desks, JobDesk
from andon.jobs.folder import open_jobs_folder
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.starting import lock_dispatcher
from andon.settings.clusters import ClusterSettings
from andon.testing.fake_cluster import FakeCluster, FakeForegroundCluster, PlayedNode
from tests.support.desk_contract import DeskContract, RefusingContract, job


@pytest.fixture
def queue(state_folder: Path) -> Iterator[QueueDesk]:
    lock = lock_dispatcher(open_jobs_folder())  # as if one ran
    assert lock is not None
    yield QueueDesk()
    os.close(lock)


@pytest.fixture
def cluster(state_folder: Path, tmp_path: Path) -> ClusterDesk:
    open_jobs_folder()
    fake = FakeCluster.make(tmp_path / "lab", PlayedNode("n1", 2), now=time.time())
    return ClusterDesk("lab", 30.0, lambda: fake)


@pytest.mark.slow
class TestQueue(DeskContract, RefusingContract):
    @pytest.fixture
    def desk(self, queue: QueueDesk) -> JobDesk:
        return queue


@pytest.mark.slow
class TestCluster(DeskContract, RefusingContract):
    def word(self, text: str) -> str:
        return f"lab:{text}"

    @pytest.fixture
    def desk(self, cluster: ClusterDesk) -> JobDesk:
        return cluster


@pytest.mark.slow
class TestPreviewing(TestCluster):
    @pytest.fixture
    def desk(self, cluster: ClusterDesk, tmp_path: Path) -> JobDesk:
        settings = ClusterSettings("lab", "fake", 30.0, {"folder": str(tmp_path / "lab")})
        return ClusterDesk("lab", 30.0, lambda: FakeForegroundCluster(settings))


@pytest.mark.slow
class TestTogether(DeskContract):
    """What was submitted here; NAME:ID goes to the cluster."""

    @pytest.fixture
    def desk(self, queue: QueueDesk, cluster: ClusterDesk) -> JobDesk:
        return Desks(queue, {"lab": cluster}.get, lambda: [cluster])

    def test_words_go_to_their_desks(self, queue: QueueDesk, cluster: ClusterDesk) -> None:
        desks = Desks(queue, {"lab": cluster}.get, lambda: [cluster],
                      lambda word: ["lab:4711"] if word == "g" else [])  # fmt: skip
        (own,), (other,) = queue.submit([job()]), cluster.submit([job()])
        assert other.label == "lab:4711"
        found, errors = desks.find([own.label, "g", "lab:1", "other:1"])
        assert [one.label for one in found] == [own.label, "lab:4711"]
        assert len(errors) == 2


@pytest.mark.slow
class TestPoller(DeskContract):
    """A server's: what it knows is as new as its last question, which these tests repeat."""

    def word(self, text: str) -> str:
        return f"lab:{text}"

    @pytest.fixture
    def desk(self, cluster: ClusterDesk) -> JobDesk:
        class Asked(ClusterPoller):
            def page(self, everyone: bool = False) -> object:  # type: ignore[override]
                self.poll()
                return super().page()

        return Asked(cluster)
