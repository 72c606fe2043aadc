"""The contract of nodes over real servers: this user's, a hub's node, a demo, and root's server as
another user asks it; with and without a key."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from andon.app.node import NodeChoice, find_node
from andon.app.settings import load_settings
from andon.model.job.desk import JobAct
from andon.node import sign_in
from andon.node.port import Node
from andon.runs.rules.matching import RunQuery
from tests.integration.machine import on_a_machine, told
from tests.integration.serving import Served, serving
from tests.support import role_servers
from tests.support.node_contract import NodeContract, refused
from tests.support.postgres import url_of
from tests.support.recordings import recording_of
from tests.support.replaced import answers
from tests.support.role_servers import NODE, RUN, SECRET, USERS, RoleServer, demo, reporting_node

pytestmark = pytest.mark.process


def node_of(url: str, secret: str = "", node: str | None = None) -> Iterator[Node]:
    """The node behind a server, as whoever has this secret sees it; without one, as nobody."""
    folder = Path(os.environ["XDG_STATE_HOME"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "secret").write_text(secret)
    (folder / "secret").chmod(0o600)
    file = str(folder / "secret") if secret else None
    found = find_node(NodeChoice(url=url, token_file=file, node=node), load_settings({}).settings)
    yield found
    found.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with an alert for each device, a run, and jobs."""
    folder = tmp_path_factory.mktemp("served")
    given: dict[str, Any] = role_servers.warm(folder)
    given["ANDON_LEASE_DIR"] = str(folder / "book")  # tests beside it read the usual one
    state = {"XDG_STATE_HOME": str(folder / "state"), "USER": "root"}
    command = [sys.executable, "-m", "tests.support.role_servers"]
    subprocess.run(command, check=True, timeout=60, env={**os.environ, **given, **state})
    with serving(folder / "state", simulate=2, **given) as found:
        yield found


class TestRemote(NodeContract):
    served: Served

    @pytest.fixture
    def node(self, served: Served, state_folder: Path) -> Iterator[Node]:
        type(self).served = served
        yield from node_of(served.url, served.token)

    def lease(self, node: Node) -> str:
        more = {"Content_Type": "application/json", **self.served.bearer}
        made = self.served.ask("/api/leases", "POST", '{"gpus": 1, "seconds": 600}', **more)
        return str(made.json()["id"])


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("played")
    recording = str(recording_of(folder / "recording.jsonl"))
    with serving(folder / "state", "--replay", recording, simulate=None) as found:
        yield found


class TestRemoteRecording(NodeContract):
    """A server that plays a recording has neither leases nor jobs."""

    without = frozenset({"leases", "jobs"})

    @pytest.fixture
    def node(self, played: Served, state_folder: Path) -> Iterator[Node]:
        yield from node_of(played.url, played.token)


@pytest.fixture
def kernel_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a system whose local sockets do not say who asks."""
    answers(monkeypatch, sign_in, "is_known", False)


class WithoutKey(NodeContract):
    """Jobs, and what it changes, are signed in for: the kernel says that it is the server's
    user."""

    blind = True

    @pytest.mark.usefixtures("kernel_that_says_nothing")
    def test_a_caller_without_rights_sees_no_command_line(self, node: Node) -> None:
        super().test_a_caller_without_rights_sees_no_command_line(node)


class TestRemoteWithoutKey(WithoutKey):
    @pytest.fixture
    def node(self, served: Served, state_folder: Path) -> Iterator[Node]:
        yield from node_of(served.url)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("hub")
    with ExitStack() as stack:
        made = serving(folder / "state", "--store", url_of(folder), simulate=2, ANDON_NODE="hub")
        found = stack.enter_context(made)
        owner = RoleServer(found, {"token": found.token}, {})
        token = owner.ask("token", "POST", "/api/nodes", {"name": NODE}).json()["token"]
        stack.enter_context(reporting_node(found, token))
        yield found


class OfHub(NodeContract):
    """A node that reports to a hub: nothing is changed there."""

    acts = False


class TestNodeOfHub(OfHub):
    @pytest.fixture
    def node(self, hub: Served, state_folder: Path) -> Iterator[Node]:
        yield from node_of(hub.url, hub.token, NODE)

    def test_its_runs_uses_and_jobs_are_those_that_it_reported(self, node: Node) -> None:
        (row,) = node.runs.find(RunQuery(limit=5))
        assert (row.id, row.user, row.command) == (RUN, "alice", SECRET)
        now = node.live.latest().at
        uses = node.past.usage(None, now - 3600, now)  # and those of the processes in its reports
        assert ("alice", SECRET) in {(use.user, use.name) for use in uses}
        (view,) = node.jobs.listing().views
        assert (view.user, view.command) == ("alice", SECRET)

    def test_what_only_the_node_has_is_refused_with_the_command_to_type_there(
        self, node: Node
    ) -> None:
        (row,) = node.runs.find(RunQuery(limit=5))
        assert "n17" in refused(lambda: node.runs.record(row)).hint
        assert "n17" in refused(lambda: node.jobs.log(1, None, 100)).hint
        (outcome,) = node.jobs.act(JobAct.CANCEL, [1])
        assert outcome.error is not None
        assert outcome.error.hint == f"on {NODE}: andon cancel ID"


class TestNodeOfHubWithoutKey(WithoutKey, OfHub):
    @pytest.fixture
    def node(self, hub: Served, state_folder: Path) -> Iterator[Node]:
        yield from node_of(hub.url, "", NODE)


@pytest.mark.parametrize("asked", [f"runs/{RUN}", f"runs/{RUN}/events"])
def test_a_hub_shows_of_its_node_what_a_server_shows(hub: Served, asked: str) -> None:
    assert hub.ask(f"/api/nodes/{NODE}/{asked}", **hub.bearer).status == 200


def test_a_hub_estimates_for_the_gpus_of_its_node(hub: Served) -> None:
    owner = RoleServer(hub, {"token": hub.token}, {})
    found = owner.ask("token", "POST", f"/api/nodes/{NODE}/estimate", {"model": "llama-3-8b"})
    assert (found.status, len(found.json()["fits"]) > 0) == (200, True)


@pytest.fixture(scope="module")
def visited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoleServer]:
    with demo(tmp_path_factory.mktemp("demo"), port=0) as found:
        yield found


class TestDemo(NodeContract):
    @pytest.fixture
    def node(self, visited: RoleServer, state_folder: Path) -> Iterator[Node]:
        yield from node_of(visited.served.url)


@pytest.mark.parametrize("role", ["alice", pytest.param("token", marks=pytest.mark.long)])
def test_the_server_of_root_is_a_node_for_each_user(role: str) -> None:
    script = f'{USERS}\n"$PYTHON" -P -m tests.support.user_nodes {role}\n'
    found = told(on_a_machine(script, network=True))["failures"]
    assert found == {}
