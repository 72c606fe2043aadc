"""Runs a command on several nodes, hosts over SSH or those of a hub: which commands support it, how
the answers are printed, and the exit code."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from andon.cli.node_answers import NodeAnswer, NodeTable
from andon.cli.several_nodes import ReachedNode, SeveralNodes
from andon.cli.sources import resolved_of
from andon.cli.terminal import Choices, Terminal
from andon.errors import Invalid
from andon.node.ssh.calls import SshLimits

LIVE = frozenset(("watch", "top"))
"""Commands that keep a connection. The others that take --ssh can run on several nodes."""
NONE_ANSWERED, SOME_ANSWERED, NOT_AVAILABLE = 3, 1, 1


class NodeGroup(Struct, frozen=True):
    """The selected nodes, what they are called, and how to open one."""

    noun: str
    names: Sequence[str]
    limits: SshLimits
    follow_hint: str
    opened: Callable[[str, Mapping[str, Any]], tuple[ReachedNode, Choices]]
    """Returns a node, and the choices of a command that asks it: the given ones, and its own."""


def over_nodes(
    choices: Choices,
    group: NodeGroup,
    path: str,
    call: Callable[..., Any],
    more: Mapping[str, Any],
) -> int:
    """Calls a command with its options for each node; returns the exit code."""
    if more.get("follow"):
        raise Invalid("--follow is for one machine", hint=group.follow_hint)
    for name in ("out", "parquet"):  # each node would write over what the others wrote
        if more.get(name) is not None:
            raise Invalid(f"--{name} is for one machine", hint="for all of them: --json > FILE")
    form = _form(more)
    if path == "free" and not more["as_json"]:
        more, form = {**more, "as_json": True}, "free"
    terminal, resolved = Terminal.of(choices), resolved_of(choices)  # its mistakes come once
    table = NodeTable(group.names, form, terminal, group.noun)
    shared = vars(choices) | {
        "ssh": (), "hosts_file": None, "quiet": True, "width": table.width, "warned": True,
        "color": "always" if terminal.color else "never", "resolved": resolved,
    }  # fmt: skip
    nodes = SeveralNodes(group.names, group.limits, lambda name: group.opened(name, shared))
    table.begin()
    answers = nodes.ask(lambda: call(**more), table.add)
    table.end()
    return code_of(path, answers, worst=bool(more.get("by_level")))


def code_of(path: str, answers: Sequence[NodeAnswer], worst: bool = False) -> int:
    """Returns the exit code: the lowest of all nodes if all have answered, with `worst` the
    highest. For `andon free`: whether any node has the devices now, later or never. Nodes that are
    silent to their hub count only if all are."""
    counted = [one for one in answers if one.current or not one.answered] or answers
    codes = [one.code for one in counted if one.answered]
    if path == "free":
        known = [one for one in codes if one in (0, NOT_AVAILABLE)]
        return min(known or (codes if len(set(codes)) == 1 else [NONE_ANSWERED]))
    if len(codes) == len(counted):
        return max(codes) if worst else min(codes)
    return SOME_ANSWERED if codes else NONE_ANSWERED


def _form(more: Mapping[str, Any]) -> str:
    """Returns json, csv or text."""
    form = more.get("form") or "text"
    for name in ("json", "csv"):
        if more.get(f"as_{name}") or form == name:
            return name
    if form != "text":
        raise Invalid(f"several nodes print text, JSON or CSV, not {form}")
    return "text"
