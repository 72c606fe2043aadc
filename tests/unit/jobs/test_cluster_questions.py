"""How often a cluster is asked, and which time its limit counts."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from andon.errors import Unavailable
from andon.fleet import node_readings
from andon.jobs.clusters import answers, asking
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.clusters.poller import ClusterPoller
from andon.jobs.folder import open_jobs_folder
from andon.jobs.waiting import wait
from andon.model.job.cluster import ClusterJob, ClusterNode
from andon.model.job.facts import JobState
from andon.settings.clusters import ClusterSettings
from andon.testing.fake_cluster import FakeCluster, PlayedNode
from tests.support.desk_contract import job
from tests.support.replaced import constants


class Counting(FakeCluster):
    """Counts what it is asked."""

    looks = nodes_asked = 0

    def jobs(self, since: float, everyone: bool = False) -> Sequence[ClusterJob]:
        self.looks += 1
        return super().jobs(since, everyone)

    def nodes(self) -> Sequence[ClusterNode]:
        self.nodes_asked += 1
        return super().nodes()


@pytest.fixture
def fake(state_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counting:
    constants(monkeypatch, asking, GRACE_SECONDS=0.0)
    open_jobs_folder()
    FakeCluster.make(tmp_path / "lab", PlayedNode("n1", 1), now=time.time())
    return Counting(ClusterSettings("lab", "fake", 10.0, {"folder": str(tmp_path / "lab")}))


def desk_of(fake: FakeCluster, seconds: float = 30.0, **more: object) -> ClusterDesk:
    return ClusterDesk("lab", seconds, lambda: fake, **more)  # type: ignore[arg-type]


def listed_again(desk: ClusterDesk) -> list[str | None]:
    answers.forget_answer("lab")
    return [one.reason for one in desk.listing().views]


def asked_by_poller(poller: ClusterPoller) -> list[str | None]:
    poller.poll()
    return [one.reason for one in poller.listing().views]


@pytest.mark.parametrize("look", ["list", "poller"])
def test_nodes_are_asked_for_once_while_the_same_jobs_lack_gpus(fake: Counting, look: str) -> None:
    desk = desk_of(fake)
    desk.submit([job("sleep 20"), job("sleep 20"), job("sleep 20")])
    again: Callable[[], list[str | None]] = partial(listed_again, desk)
    if look == "poller":
        again = partial(asked_by_poller, ClusterPoller(desk))
    first = again()
    assert "needs 1 GPU on one node: n1 has 0 free" in str(first[1])
    for _ in range(4):
        assert again() == first
    assert fake.nodes_asked == 1
    fake.advance(25)  # one has ended and another runs
    assert again() != first
    assert fake.nodes_asked == 2


def test_the_answer_to_one_who_waits_is_used_by_others(fake: Counting) -> None:
    desks = [desk_of(fake) for _ in range(5)]
    (made,) = desks[0].submit([job("sleep 20")])
    for _ in range(3):
        states = [one.find([made.label]).views[0].state for one in desks]
        assert states == [JobState.RUNNING] * 5
    assert fake.looks == 5 + 2  # each looks once for itself
    fake.advance(25)
    desks[0].find([made.label])
    views, errors = wait(desks[1], [made.label])
    assert [one.state for one in views] == [JobState.SUCCEEDED]
    assert not errors
    assert fake.looks == 5 + 3


def test_a_job_that_is_not_in_the_last_answer_is_asked_for(fake: Counting) -> None:
    desks = [desk_of(fake) for _ in range(2)]
    desks[0].listing()
    label = f"lab:{fake.submit(job('sleep 20'))}"
    assert [one.label for one in desks[1].find([label]).views] == [label]
    assert fake.looks == 2


def test_who_saw_the_end_of_an_output_is_not_told_that_the_job_runs(fake: Counting) -> None:
    desk = desk_of(fake)
    (made,) = desk.submit([job("echo done; sleep 20")])
    for _ in range(2):
        desk.find([made.label])
    fake.advance(25)
    assert desk.log(made.label, 0, 100).ended
    assert [one.state for one in desk_of(fake).listing().views] == [JobState.SUCCEEDED]
    desk.log(made.label, 0, 100)
    desk_of(fake).listing()
    assert fake.looks == 3


def test_one_that_is_away_is_unavailable_however_new_its_last_answer(fake: Counting) -> None:
    desk = desk_of(fake)
    (made,) = desk.submit([job("sleep 20")])
    other = desk_of(fake)
    for one in (other, desk, desk):
        one.find([made.label])
    fake.break_(away="connection refused")
    found = other.find([made.label])
    assert [one.state for one in found.views] == [JobState.RUNNING]
    with pytest.raises(Unavailable, match="lab: connection refused"):
        desk.find([made.label])


@pytest.mark.slow
def test_a_hub_that_is_slow_is_not_the_clusters_fault(
    fake: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_readings, "hub_of", lambda url: time.sleep(0.8))
    desk = desk_of(fake, 0.4, read_nodes=partial(node_readings.read_nodes, "http://hub"))
    desk.submit([job("sleep 20"), job("sleep 20")])
    assert [one.name for one in desk.nodes()] == ["n1"]
    listing = desk.listing()
    assert listing.clusters[0].trouble is None
    assert "needs 1 GPU on one node" in str(listing.views[1].reason)
    fake.break_(slow=60)
    began = time.monotonic()
    with pytest.raises(Unavailable, match="no answer within"):
        desk.nodes()
    assert time.monotonic() - began < 5.0
