"""The contract of nodes, on this machine and on the fake; the integration tests have a real
server."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.access.roles import Identity, Role
from andon.app.node import NodeChoice, find_node
from andon.app.settings import load_settings
from andon.model.lease import LeaseState
from andon.model.lease_list import LeaseRow
from andon.node.port import Node
from andon.node.seen.node import SeenNode
from tests.support.fake_node import FakeNode
from tests.support.node_contract import NodeContract
from tests.support.notices import HOT
from tests.support.reported_nodes import ReportingNode
from tests.support.snapshots import farm
from tests.support.web_parts import Parts


class TestFake(NodeContract):
    @pytest.fixture
    def node(self) -> Node:
        at = farm().at
        row = LeaseRow(
            id="l1", user="ada", whom=None, uid=0, state=LeaseState.HELD, kind=None, devices=(),
            since=at, until=at + 60, command="python x.py", simulated=True, used_bytes=0,
            reserved_bytes=None, utilization_percent=None, fence=1, pid=None, releasable=True,
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
