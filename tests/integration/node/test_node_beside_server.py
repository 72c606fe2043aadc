"""The contract of this machine's node beside the server that watches its devices, and of that
server as its local socket shows it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from andon import app
from andon.app.node import NodeChoice, find_node
from andon.app.settings import load_settings
from andon.node.local.context import LocalContext
from andon.node.local_server import LocalServer
from andon.node.port import Node
from andon.node.remote import RemoteNode
from tests.integration.serving import Served, serving
from tests.standin import StandIn
from tests.support.node_contract import NodeContract

pytestmark = pytest.mark.process
Machine = tuple[Served, Mapping[str, str]]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Iterator[Machine]:
    """Two devices, the server that watches them, and the variables by which both are found."""
    folder = tmp_path_factory.mktemp("machine")
    driver = StandIn(folder / "standin")
    driver.write(StandIn.devices(2))
    known = driver.environment(library)
    given: dict[str, Any] = {name: known[name] for name in ("STANDIN_FOLDER", "LD_LIBRARY_PATH")}
    given["ANDON_LEASE_DIR"] = str(folder / "book")
    with serving(folder / "state", simulate=None, **given) as served:
        yield served, {**given, "ANDON_PORT": str(served.port)}


class OfThisMachine(NodeContract):
    served: Served

    @pytest.fixture(autouse=True)
    def _is_here(
        self, machine: Machine, state_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        type(self).served, given = machine
        for name, value in given.items():
            monkeypatch.setenv(name, value)

    def lease(self, node: Node) -> str:
        more = {"Content_Type": "application/json", **self.served.bearer}
        made = self.served.ask("/api/leases", "POST", '{"gpus": 1, "seconds": 600}', **more)
        return str(made.json()["id"])


class TestBesideServer(OfThisMachine):
    """What commands ask without an option."""

    @pytest.fixture
    def node(self) -> Iterator[Node]:
        node = find_node(NodeChoice(), load_settings({}).settings)
        yield node
        node.close()

    def test_it_is_the_server_that_knows(self, node: Node) -> None:
        assert node.alerts.notifies
        assert node.past.recorded
        shared = node.shared()
        assert shared is not None
        assert shared.live.latest().boot == node.live.latest().boot


class TestAtTheLocalSocket(OfThisMachine):
    """The server as `andon alerts` and `andon top` read it here: the kernel says who asks."""

    @pytest.fixture
    def node(self) -> Iterator[Node]:
        node = LocalContext(load_settings({}).settings, app, lambda _: None).any_server()
        assert isinstance(node, RemoteNode)
        assert isinstance(node._server, LocalServer)
        yield node
        node.close()
