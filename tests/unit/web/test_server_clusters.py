"""Jobs of clusters on a server: one list, each user's own, and never more than its user may do."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from andon.access.roles import ALL_SEEING, ANONYMOUS, Identity, Role, Sight
from andon.errors import Denied, Gone, Invalid, Unavailable
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.clusters.poller import ClusterPoller
from andon.jobs.folder import JobsFolder
from andon.jobs.queue import Queue
from andon.jobs.queue_desk import QueueDesk
from andon.model.job.desk import JobAct, JobOutcome, Submission
from andon.model.job.device_request import DeviceRequest
from andon.model.job.spec import JobSpec
from andon.node.job_schemas import JobCounts
from andon.node.seen.jobs import LOG_BYTES, SeenJobs
from andon.node.watched.jobs import ServedJobs
from andon.settings.clusters import ClusterSettings
from andon.testing.fake_cluster import FakeCluster, PlayedNode
from andon.web.bindings.live_server import Prepared
from andon.web.history_reader import HistoryReader
from andon.web.live.job_watch import JOBS, JobWatch
from tests.support.homes import own_folders
from tests.support.seen_nodes import seen_node

OWNER = Identity(Role.OWNER, 1000, "ada")


class Served:
    """A server of ada with a job of this machine, and a cluster with jobs of ada and bob."""

    def __init__(self, path: Path) -> None:
        self.fake = FakeCluster.make(path / "lab", PlayedNode("n1", 4), now=time.time())
        for user in ("ada", "bob"):
            options = {"folder": str(path / "lab"), "user": user}
            mine = FakeCluster(ClusterSettings("lab", "fake", 10.0, options))
            script = f"echo of {user}; sleep 9"
            job = JobSpec(0, f"train-{user}", ("sh", "-c", script), "/", DeviceRequest(), 0.0)
            mine.submit(Submission(f"l{user}", job))
            setattr(self, user, mine)
        self.poller = ClusterPoller(ClusterDesk("lab", 10.0, lambda: self.fake), everyone=True)
        self.poller.poll()
        folder = JobsFolder(path)
        folder.submit([JobSpec(0, "here", ("true",), "/", DeviceRequest(), 1.0, user="ada")])
        self.all = ServedJobs(
            QueueDesk(lambda: Queue(folder), "ada", lambda _: None),
            lambda: None,
            lambda document: [],
            clusters=[self.poller],
        )
        self.jobs, self.blind = (seen_node(who, jobs=self.all).jobs for who in (OWNER, ANONYMOUS))


def raised(outcome: JobOutcome) -> None:
    assert outcome.error is not None
    raise outcome.error


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    for name, value in own_folders(tmp_path).items():
        monkeypatch.setenv(name, value)
    return Served(tmp_path)


def test_both_are_one_list_the_newest_first(served: Served) -> None:
    page = served.jobs.page()
    assert [job.label for job in page.jobs] == ["lab:4711", "1"]
    assert [job.engine for job in page.jobs] == ["lab", None]
    assert page.counts == JobCounts(waiting=1, running=1)
    (state,) = page.clusters
    assert (state.name, state.trouble) == ("lab", None)


def test_a_cluster_that_is_away_is_said_and_its_jobs_stay(served: Served) -> None:
    served.fake.break_(away="connection refused")
    served.poller.poll()
    page = served.jobs.page()
    assert [job.label for job in page.jobs] == ["lab:4711", "1"]
    assert page.clusters[0].trouble == "connection refused"
    assert served.jobs.view("lab:4711").name == "train-ada"
    with pytest.raises(Unavailable, match="lab does not answer now"):  # it may have it
        served.jobs.view("lab:4799")


def test_one_who_may_not_see_commands_sees_that_a_job_exists(served: Served) -> None:
    page = served.blind.page()
    there = page.jobs[0]
    assert (there.label, there.state, there.where) == ("lab:4711", "running", "n1 GPU 0")
    assert (there.name, there.command, there.folder, there.reason) == ("hidden", "hidden", "", None)
    assert page.clusters == ()
    assert served.blind.view("lab:4711").command == "hidden"
    with pytest.raises(Denied, match="for ada alone"):
        served.blind.log("lab:4711", None, LOG_BYTES)


def test_the_output_is_read_from_a_position_for_the_servers_user(served: Served) -> None:
    part = served.jobs.log("lab:4711", None, LOG_BYTES)
    assert (part.text, part.ended) == ("of ada\n", False)
    assert served.jobs.log("lab:4711", part.end, LOG_BYTES).text == ""


def test_it_is_cancelled_by_its_user(served: Served) -> None:
    (done,) = served.jobs.act(JobAct.CANCEL, ["lab:4711"])
    assert (done.label, done.text) == ("lab:4711", "is asked to end")
    served.poller.poll()
    assert served.jobs.view("lab:4711").state == "cancelled"


def test_live_events_tell_what_changes_there_and_what_is_gone(served: Served) -> None:
    watch, heard = JobWatch(HistoryReader()), list[dict[str, Any]]()
    nodes = [seen_node(ALL_SEEING, jobs=served.all)]

    async def emit(event: str, text: Prepared, what: str, sight: Sight) -> None:
        assert (event, what, sight) == ("job", "jobs", ALL_SEEING)
        heard.append(json.loads(str(text)))

    async def rounds() -> None:
        await watch.publish({JOBS: nodes}, emit)
        served.fake.advance(9)
        served.poller.poll()
        await watch.publish({JOBS: nodes}, emit)
        served.fake.forget("4711")
        served.poller.poll()
        await watch.publish({JOBS: nodes}, emit)

    asyncio.run(rounds())
    changed, gone = heard
    assert [(one["label"], one["state"]) for one in changed["jobs"]] == [("lab:4711", "succeeded")]
    assert gone["gone"] == [{"user": "ada", "label": "lab:4711"}]
    assert gone["counts"] == {"waiting": 1, "running": 0, "ended": 0}


@pytest.mark.parametrize("act", set(JobAct) - {JobAct.CANCEL})
def test_nothing_else_is_done_to_it(served: Served, act: JobAct) -> None:
    (outcome,) = served.jobs.act(act, ["lab:4711"])
    assert isinstance(outcome.error, Invalid)
    assert "is a job of a cluster, which has its own queue" in outcome.error.reason


@pytest.mark.parametrize(
    "ask",
    [
        lambda jobs: jobs.log("lab:4712", None, LOG_BYTES),
        lambda jobs: raised(*jobs.act(JobAct.CANCEL, ["lab:4712"])),
    ],
)
def test_jobs_of_others_are_neither_read_nor_changed(
    served: Served, ask: Callable[[SeenJobs], object]
) -> None:
    with pytest.raises(Denied, match="only for jobs of ada"):
        ask(served.jobs)


@pytest.mark.parametrize("label", ["lab:99", "other:4711", "lab:"])
def test_an_unknown_one_is_gone(served: Served, label: str) -> None:
    with pytest.raises(Gone):
        served.jobs.view(label)
    with pytest.raises(Gone):
        seen_node(Sight(user="eve", uid=7), jobs=served.all).jobs.view("lab:4712")
