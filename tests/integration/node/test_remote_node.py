"""The contract of nodes over a real server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from andon.app.node import NodeChoice, find_node
from andon.app.settings import load_settings
from andon.node.port import Node
from tests.integration.serving import Served, serving
from tests.support.node_contract import NodeContract


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served") / "state", simulate=2) as found:
        yield found


class TestRemote(NodeContract):
    @pytest.fixture
    def node(self, served: Served, state_folder: Path) -> Iterator[Node]:
        token = served.state / "andon" / "token"
        choice = NodeChoice(url=served.url, token_file=str(token))
        node = find_node(choice, load_settings({}).settings)
        yield node
        node.close()
