"""The contract of nodes, on this machine and on the fake; the integration tests have a real
server."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import asdict, replace

from andon.access.roles import Identity, Role
from andon.alerts.watcher import Watcher
from andon.app.node import NodeChoice, find_node
from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.drivers.sim.rules.demo import ME
from andon.errors import Gone
from andon.explain.conditions.rulebook import Rulebook
from andon.model.codec import to_json
from andon.model.job.desk import LogPart
from andon.model.job.facts import JobState, JobView
from andon.model.lease import LeaseState
from andon.model.lease_list import LeaseRow
from andon.model.run.record import RunKind, RunRow, RunState
from andon.node.port import Node
from andon.node.seen.node import SeenNode
from andon.node.watched.live import WatchedLive
from andon.node.watched.node import WatchedNode
from andon.node.watched.recorded_past import NoPast
from andon.node.watched.runs import FoundRuns
from andon.node.watched.users import read_user
from andon.runs.rules.matching import RunQuery
from andon.stores.memory import MemoryAlertStore
from andon.web.demo.filling import new_demo
from andon.web.demo.jobs import DemoUsers
from tests.support.fake_node import FakeNode
from tests.support.node_contract import NodeContract
from tests.support.notices import HOT
from tests.support.recordings import recording_of
from tests.support.reported_nodes import ReportingNode
from tests.support.run_records import BEGAN
from tests.support.served_runs import index_of, runs_of
from tests.support.snapshots import farm
from tests.support.user_parts import Told, jobs_told
from tests.support.web_parts import Parts


class TestFake(NodeContract):
    @pytest.fixture
    def node(self) -> Node:
        at = farm().at
        row = LeaseRow(
            id="l1", user="ada", whom=None, uid=0, state=LeaseState.HELD, kind=None, devices=(),
            since=at, until=at + 60, command="python x.py", simulated=True, used_bytes=0,
            promised_bytes=None, utilization_percent=None, fence=1, pid=None, releasable=True,
            not_releasable_reason=None,
        )  # fmt: skip
        return FakeNode(farm(), farm(), farm(), uses=(), alerts=(HOT,), leases=(row,))

    def lease(self, node: Node) -> str:
        return "l1"


class TestFakeWithoutPast(NodeContract):
    @pytest.fixture
    def node(self) -> Node:
        return FakeNode(farm(), farm(), farm())


@pytest.mark.process
class TestLocal(NodeContract):
    """Simulated devices, with a book and an index of this test's own."""

    @pytest.fixture
    def node(self, state_folder: Path, book_folder: Path) -> Iterator[Node]:
        settings = load_settings({"simulate": 2}).settings
        node = find_node(NodeChoice(simulate=2), settings)
        yield node
        node.close()


@pytest.mark.process
class TestRecording(NodeContract):
    """A recording that is played here; whose runs and jobs are those of this machine."""

    @pytest.fixture
    def node(self, tmp_path: Path, state_folder: Path, book_folder: Path) -> Iterator[Node]:
        path = str(recording_of(tmp_path / "recording.jsonl"))
        node = find_node(NodeChoice(replay=path), load_settings({"replay": path}).settings)
        assert node.recording
        yield node
        node.close()


@contextmanager
def going_on(step: Callable[[], object]) -> Iterator[None]:
    """New snapshots come while a test runs."""
    ended = threading.Event()

    def go_on() -> None:
        while not ended.wait(0.05):
            step()

    thread = threading.Thread(target=go_on)
    thread.start()
    yield
    ended.set()
    thread.join()


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    parts = Parts(tmp_path_factory.mktemp("served"), [farm()])
    with going_on(lambda: parts.sampler.give(replace(farm(), at=time.time()))):
        yield parts
    parts.close()


@pytest.mark.slow
class TestServing(NodeContract):
    """What the routes of a server ask, for its owner and for a user of its machine."""

    @pytest.fixture(params=[Role.OWNER, Role.USER])
    def node(
        self, request: pytest.FixtureRequest, parts: Parts, monkeypatch: pytest.MonkeyPatch
    ) -> Node:
        for name, value in parts.env.items():
            monkeypatch.setenv(name, value)
        who = Identity(request.param, 12345, "ada")
        return SeenNode(parts.node, who)


@pytest.mark.slow
class TestWatched(NodeContract):
    """What a server watches, with everything in it."""

    @pytest.fixture
    def node(self, parts: Parts, monkeypatch: pytest.MonkeyPatch) -> Node:
        for name, value in parts.env.items():
            monkeypatch.setenv(name, value)
        return parts.node


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedNode]:
    path = str(recording_of(tmp_path_factory.mktemp("played") / "recording.jsonl"))
    settings = load_settings({"replay": path}).settings
    with open_sampler(settings) as sampler:
        live = WatchedLive(sampler, 1.0, past_snapshots=9)
        watcher = Watcher(sampler.subscribe(1.0), Rulebook(), MemoryAlertStore)
        watcher._writer.opened(10)
        assert live.wait_for_first(10)
        none = NoPast("history is disabled", "start without --no-history")
        yield WatchedNode("node", settings, live, none, watcher, runs_of([]))
        watcher.close()
        live.close()


@pytest.mark.slow
@pytest.mark.process
class TestPlayed(NodeContract):
    """A recording that a server plays: it has neither leases nor jobs."""

    without = frozenset({"leases", "jobs"})

    @pytest.fixture(params=["watched", "seen"])
    def node(self, request: pytest.FixtureRequest, played: WatchedNode) -> Node:
        assert played.recording
        return played if request.param == "watched" else SeenNode(played, Identity(Role.OWNER))


@pytest.mark.slow
@pytest.mark.process
def test_who_is_in_a_recording_is_not_the_user_of_that_name_here(played: WatchedNode) -> None:
    processes = [one for status in played.live.latest().devices for one in status.processes]
    user = next(one.user for one in processes if one.command is not None)
    namesake = SeenNode(played, Identity(Role.USER, 1234, user))
    shown = [one for status in namesake.live.latest().devices for one in status.processes]
    assert [one.user for one in shown] == [one.user for one in processes]
    assert {one.command for one in shown} == {None}
    assert namesake.runs.sight.shows(user), "the runs are those of this machine"


@pytest.mark.slow
class TestReported(NodeContract):
    """A node of a hub, with everything in it."""

    @pytest.fixture
    def node(self, reporting: ReportingNode) -> Node:
        return reporting.node


@pytest.mark.slow
class TestSeenReported(NodeContract):
    """The same, for the hub's owner."""

    @pytest.fixture
    def node(self, reporting: ReportingNode) -> Node:
        return SeenNode(reporting.node, Identity(Role.OWNER))


@pytest.fixture(scope="module")
def reporting() -> Iterator[ReportingNode]:
    made = ReportingNode()
    with going_on(made.report):
        yield made


JOB = JobView(
    1, "1", "sweep", JobState.WAITING, "python a.py", "/home/ada", "ada", BEGAN, "1",
    reason="no GPU is free",
)  # fmt: skip
OF_A_USER = frozenset({"live", "alerts", "leases", "past"})


class TestUser(NodeContract):
    """What root's server reads of another user."""

    without = OF_A_USER

    @pytest.fixture
    def node(self) -> Node:
        row = {
            "id": "kqzvmtra", "name": "train", "kind": "command", "state": "succeeded",
            "node": "n", "began": BEGAN, "path": "/home/ada/a.jsonl", "user": "ada",
        }  # fmt: skip
        gone = Gone("there is no job 9999999", hint="andon jobs")  # as a queue says it
        told = Told(
            jobs=jobs_told(JOB), runs={"seen": "1", "rows": [row]},
            job=lambda job: to_json(JOB) if job in (1, "1") else gone,
            log=lambda job, **_: gone if job != 1 else asdict(LogPart(0, 2, "x\n", True, 1)),
            act=lambda **_: gone,
        )  # fmt: skip
        return read_user("ada", told.ask)


class TestUserOfTheDemo(NodeContract):
    """One of the people of the simulated lab."""

    without = OF_A_USER

    @pytest.fixture
    def node(self) -> Node:
        demo = new_demo(load_settings({"simulate": 8, "simulate_scenario": "lab"}).settings)
        others = sorted({work.user for work in demo.works} - {ME})
        rows = [
            RunRow(f"lab{n}", "train", RunKind.JOB, RunState.SUCCEEDED, "lab", BEGAN, "", user)
            for n, user in enumerate(others)
        ]
        found = DemoUsers(demo, lambda: FoundRuns(index_of(rows))).named(others[0])
        assert found is not None
        assert [row.user for row in found.runs.find(RunQuery())] == [others[0]]
        return found
