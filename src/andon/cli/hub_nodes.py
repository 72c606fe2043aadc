"""`--url` of a hub: a command over all of its nodes, or for the one that a GPU names: `n17:3`."""

import re
import time
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache
from typing import Any

import click

from andon.app.thresholds import rulebook
from andon.cli.options import split_devices
from andon.cli.over_nodes import READING, over_nodes
from andon.cli.several_nodes import AskedNode
from andon.cli.sources import resolved_of
from andon.cli.terminal import Choices, notice
from andon.errors import Gone, Invalid, Unavailable
from andon.explain.conditions.rulebook import Rulebook
from andon.fleet.rules.states import NodeList, NodeRow, NodeState, free_of, list_from_json
from andon.node.remote import RemoteNode
from andon.node.server import Server, connect

OWN_ANSWER = frozenset(("alerts rules", "alerts show", "doctor", "runs"))
"""What a hub answers for all of its nodes at once."""
OF_ANY_MACHINE = frozenset(("alerts", "jobs"))
"""What a hub's own machine has also without a GPU."""
AT_ONCE, SECONDS = 16, 60.0
LAST_REPORT = "this is its last report"
_ORDER = (NodeState.SICK, NodeState.SILENT, NodeState.NEW, NodeState.HEALTHY)
_NO_NODE = re.compile(r"[0-9a-f]{1,8}|cuda", re.IGNORECASE)
"""What a device's own name begins with: `6:0`, `3b:00.0`, `cuda:0`."""


class ListedNode(RemoteNode):
    """A node of a hub, with what the hub's list says of it."""

    def __init__(self, server: Server, thresholds: Callable[[], Rulebook], row: NodeRow) -> None:
        super().__init__(server, thresholds)
        self._row, self.heard = row, row.heard
        marks = [f"{row.reason}; {LAST_REPORT}"] * (not row.heard) + ["drained"] * row.drained
        self.remark = " · ".join(marks) or None

    @property
    def by(self) -> str | None:
        return f"andon {self._row.version}"

    def free(self) -> int | None:
        return free_of(self._row)


class HubLimits:
    """How long all nodes of a hub may take together, and how many are asked at once."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self._until = seconds, time.monotonic() + seconds

    @property
    def left(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def has_room(self, running: int) -> bool:
        return running < AT_ONCE

    def end(self) -> None:
        """Lets nothing else begin; what was asked ends by its own limit."""
        self._until = 0.0


class HubNodes:
    """Nodes of a hub, those that need someone first."""

    noun, follow_hint = "node", "one node of the hub: --node NAME"

    def __init__(self, choices: Choices, server: Server, rows: Sequence[NodeRow]) -> None:
        settings = resolved_of(choices).settings
        self._rows = {row.name: row for row in sorted(rows, key=_urgency)}
        self.names, self.limits = [*self._rows], HubLimits(choices.timeout or SECONDS)
        self._server, self._rulebook = server, cache(lambda: rulebook(settings))

    def opened(self, name: str, shared: Mapping[str, Any]) -> tuple[AskedNode, Choices]:
        node = ListedNode(self._server.of_node(name), self._rulebook, self._rows[name])
        return node, Choices(**{**shared, "node_name": name, "node": node})


def over_hub(
    choices: Choices, command: Callable[..., Any], args: Sequence[Any], more: dict[str, Any]
) -> Any:
    """Calls a command for each node of a hub; once, where one node or another server is meant."""
    context = click.get_current_context()
    path = context.command_path.partition(" ")[2]
    names, words = (choices.node_name or "").split(","), split_devices(more.get("devices") or ())
    lists = path in READING - OWN_ANSWER and not (path == "why" and more["job"])
    asks = len(names) > 1 or (not names[0] and (lists or any(":" in one for one in words)))
    if context.invoked_subcommand is not None or not asks:
        return command(*args, **more)
    notices = list[str]()
    server = connect(choices.url or "", choices.token_file, notices.append)
    listed = nodes_of(server)
    known = {row.name: row for row in listed.nodes}
    node, devices = _node_in(words, known) if listed.hub else (None, words)
    if path == "why" and node not in (None, *known) and _is_cluster_job(choices, words):
        node = None
    if node is not None:
        _refuse_unknown([node], known)
        choices.node_name, more = node, {**more, "devices": devices}
    if node is not None or not listed.hub or not (lists or names[0]):
        return command(*args, **more)
    if names[0]:
        _refuse_unknown(names, known)
        known = {name: known[name] for name in names}
    elif path == "free" and (code := _free(choices, listed, more)) is not None:
        return code
    elif listed.own is not None and path in OF_ANY_MACHINE:
        known.setdefault(listed.own, NodeRow(listed.own, NodeState.HEALTHY, version=listed.version))
    if not known:
        raise Unavailable("no node reports to this hub yet", hint="andon nodes add NAME")
    for text in notices:
        notice(text, choices)
    group = HubNodes(choices, server, [*known.values()])
    return over_nodes(choices, group, path, command, args, more)


def nodes_of(server: Server) -> NodeList:
    """Asks a server for its nodes."""
    try:
        return list_from_json(server.get("/api/nodes"))
    except Invalid as exc:
        raise server.of_another_version(exc.reason) from exc


def _free(choices: Choices, listed: NodeList, more: Mapping[str, Any]) -> int | None:
    from andon.cli.commands.fleet.fleet_free import free_in_fleet

    return free_in_fleet(choices, listed, more)


def _is_cluster_job(choices: Choices, words: Sequence[str]) -> bool:
    from andon.cli.commands.explain.why_job import is_cluster_job

    return len(words) == 1 and is_cluster_job(choices, words[0])


def _node_in(words: Sequence[str], known: Container[str]) -> tuple[str | None, list[str]]:
    """Returns the node that names of devices begin with, and what they are called there."""
    parts = [word.partition(":") for word in words]
    names = {
        name for name, _, device in parts
        if device and (name in known or _NO_NODE.fullmatch(name) is None)
    }  # fmt: skip
    if len(names) > 1:
        hint = f"all GPUs of several nodes: --node {','.join(sorted(names))}"
        raise Invalid("name GPUs of one node", hint=hint)
    node = next(iter(names), None)
    return node, [one.removeprefix(f"{node}:") for one in words]


def _refuse_unknown(names: Sequence[str], known: Container[str]) -> None:
    for name in names:
        if name not in known:
            raise Gone(f"this hub has no node {name[:60]!r}", hint="list them: andon nodes")


def _urgency(row: NodeRow) -> tuple[int, str]:
    return _ORDER.index(row.state), row.name
