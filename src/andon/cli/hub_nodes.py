"""`--url` of a hub: a command over all of its nodes, or for the one that a GPU names: `n17:3`."""

import re
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache, partial
from typing import Any

import click

from andon.app.thresholds import rulebook
from andon.cli.over_nodes import LIVE, NodeGroup, over_nodes
from andon.cli.several_nodes import ReachedNode
from andon.cli.sources import resolved_of
from andon.cli.terminal import Choices, notice
from andon.errors import Gone, Invalid, Unavailable
from andon.explain.conditions.rulebook import Rulebook
from andon.fleet.rules.states import NodeList, NodeRow, NodeState, free_of, in_need
from andon.host.state.user_folder import config_mentions
from andon.model.codec import read_document
from andon.node.remote import RemoteNode
from andon.node.server import Server, connect
from andon.node.ssh.calls import SshLimits
from andon.registry import CLUSTERS

OWN_ANSWER = frozenset(("alerts rules", "alerts show", "runs"))
"""What a hub answers for all of its nodes at once."""
NOT_BY_EACH = OWN_ANSWER | {"top"}
"""Commands that without a node are not about each; to watch all of them at once is refused."""
NOT_LISTED = ("devices", "exclude", "shared", "label", "prefer")
"""Options of `andon free` that the list of nodes cannot answer."""
OF_ANY_MACHINE = frozenset(("alerts", "jobs"))
"""What a hub's own machine has also without a GPU."""
AT_ONCE, SECONDS = 16, 60.0
ONE_NODE = "one node of the hub: --node NAME"
_NO_NODE = re.compile(r"[0-9a-f]{1,8}|cuda", re.IGNORECASE)
"""What a device's own name begins with: `6:0`, `3b:00.0`, `cuda:0`."""


class ListedNode(RemoteNode):
    """A node of a hub, with what the hub's list says of it."""

    def __init__(self, server: Server, thresholds: Callable[[], Rulebook], row: NodeRow) -> None:
        super().__init__(server, thresholds)
        self._row, self.current = row, row.heard
        silent = [] if row.heard else [f"{row.reason}; this is its last report"]
        self.remark = " · ".join([*silent, *(["drained"] * row.drained)]) or None

    @property
    def by(self) -> str | None:
        return f"andon {self._row.version}" if self._row.version else "hub"

    def free(self) -> int | None:
        return free_of(self._row)


class HubLimits(SshLimits):
    """The limits for the nodes of one hub: fewer requests at once than over SSH."""

    def has_room(self, running: int) -> bool:
        return running < AT_ONCE


def over_hub(
    choices: Choices, call: Callable[..., Any], devices: Sequence[str], more: dict[str, Any]
) -> Any:
    """Calls a command for each node of a hub; once, where one node or another server is meant.
    `devices` are the names of devices."""
    context, names = click.get_current_context(), (choices.node_name or "").split(",")
    path = context.command_path.partition(" ")[2]
    lists = _is_list(path, more)
    if len(names) == 1 and names[0] and devices:
        more = {**more, "devices": [one.removeprefix(f"{names[0]}:") for one in devices]}
    several = len(names) > 1 or (not names[0] and (lists or any(":" in one for one in devices)))
    if context.invoked_subcommand is not None or not several:
        return call(**more)
    notices = list[str]()
    server = connect(choices.url or "", choices.token_file, notices.append).keeping()
    context.call_on_close(server.close)
    listed = server.get_as("/api/nodes", partial(read_document, NodeList))
    known = {row.name: row for row in listed.nodes}
    node = _node_in(devices, known) if listed.hub else None
    is_job = path == "why" and (node in CLUSTERS or config_mentions(b"clusters"))
    if node is not None and (node in known or not is_job):
        choices.node_name = _among(known, [node])[0]
        return call(**{**more, "devices": [one.removeprefix(f"{node}:") for one in devices]})
    if not listed.hub or node is not None or not (lists or names[0]):
        return call(**more)
    if path in LIVE:
        raise Invalid(f"{path} shows one node of a hub", hint=f"{ONE_NODE}; all: andon top")
    if names[0]:
        known = {name: known[name] for name in _among(known, names)}
    elif listed.own is not None and path in OF_ANY_MACHINE:
        known.setdefault(listed.own, NodeRow(listed.own, NodeState.HEALTHY, version=listed.version))
    if not known:
        raise Unavailable("no node reports to this hub yet", hint="andon nodes add NAME")
    for text in notices:
        notice(text, choices)
    return over_nodes(choices, _group(choices, server, known), path, call, more)


def _is_list(path: str, more: Mapping[str, Any]) -> bool:
    """Whether each node must be asked."""
    if path == "free":
        return any(more[name] for name in (*NOT_LISTED, "moment", "is_next"))
    return path not in NOT_BY_EACH and not (path == "why" and more["job"])


def _among(known: Container[str], names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if name not in known:
            raise Gone(f"this hub has no node {name[:60]!r}", hint="list them: andon nodes")
    return names


def _group(choices: Choices, server: Server, rows: Mapping[str, NodeRow]) -> NodeGroup:
    """Returns the nodes, those that need attention first."""
    settings = resolved_of(choices).settings
    book = cache(lambda: rulebook(settings))

    def opened(name: str, shared: Mapping[str, Any]) -> tuple[ReachedNode, Choices]:
        node = ListedNode(server.of_node(name), book, rows[name])
        return node, Choices(**{**shared, "node_name": name, "node": node})

    names = [row.name for row in in_need(rows.values())]
    return NodeGroup("node", names, HubLimits(choices.timeout or SECONDS), ONE_NODE, opened)


def _node_in(devices: Sequence[str], known: Container[str]) -> str | None:
    """Returns the node that prefixes the device names."""
    pairs = [word.split(":", 1) for word in devices if ":" in word]
    names = {one for one, _ in pairs if one in known or _NO_NODE.fullmatch(one) is None}
    if len(names) > 1:
        hint = f"all GPUs of several nodes: --node {','.join(sorted(names))}"
        raise Invalid("name GPUs of one node", hint=hint)
    return next(iter(names), None)
