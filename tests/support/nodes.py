"""Lets the commands of a test ask a node of its own."""

import pytest

from andon.node.port import Node


def ask_node(monkeypatch: pytest.MonkeyPatch, node: Node) -> None:
    """From now on every command asks this node, whatever its options say."""
    monkeypatch.setattr("andon.app.node.find_node", lambda *_: node)
