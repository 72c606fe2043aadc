"""The contract of nodes, on this machine and on the fake; the integration tests have a real
server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from andon.app.node import NodeChoice, find_node
from andon.app.settings import load_settings
from andon.node.port import Node
from andon.testing.fake_node import FakeNode
from andon.testing.node_contract import NodeContract
from tests.support.snapshots import farm


class TestFake(NodeContract):
    @pytest.fixture
    def node(self) -> Node:
        return FakeNode(farm(), farm(), farm(), uses=())


@pytest.mark.process
class TestLocal(NodeContract):
    """Simulated devices, with a book and an index of this test's own."""

    @pytest.fixture
    def node(self, state_folder: Path, book_folder: Path) -> Iterator[Node]:
        settings = load_settings({"simulate": 2}).settings
        node = find_node(NodeChoice(simulate=2), settings)
        yield node
        node.close()
