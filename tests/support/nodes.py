"""Lets the commands of a test ask a node of its own."""

import pytest

from andon.app.node import NodeChoice
from andon.node.port import Node
from andon.settings.resolution import Settings

Asked = list[tuple[NodeChoice, Settings]]


def ask_node(monkeypatch: pytest.MonkeyPatch, node: Node) -> Asked:
    """From now on every command asks this node, whatever its options say. Returns what they
    say."""
    asked: Asked = []

    def find_node(choice: NodeChoice, settings: Settings, notify: object = None) -> Node:
        asked.append((choice, settings))
        return node

    monkeypatch.setattr("andon.app.node.find_node", find_node)
    return asked
