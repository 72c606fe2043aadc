"""What an andon hub knows of a cluster's nodes: their rows, and what runs on each."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from andon.clusters.rules.idle import idle_devices
from andon.errors import AndonError
from andon.fleet.rules.states import NodeRow, list_from_json
from andon.history.rules.series import Bucket
from andon.model.device import Snapshot
from andon.model.wire_in import snapshot_from_json
from andon.node.remote.past import RemotePast
from andon.node.server import Server, connect, own_server

IDLE_SPAN_SECONDS: Final = 86_400.0
"""How far back a GPU's last work is looked for."""
MOST_DETAILED: Final = 20
"""Nodes and devices that are asked about one by one."""
POINTS: Final = 288
"""Of that span: five minutes each, by which the time may be wrong."""


def hub_of(url: str) -> Server | None:
    """Returns the hub, or this machine's server; None if there is neither."""
    return connect(url, None, lambda _: None) if url else own_server()


def hub_rows(url: str) -> tuple[Server | None, Sequence[NodeRow]]:
    """Returns a hub, or this machine's server, and its nodes; none if it does not answer."""
    try:
        server = hub_of(url)
        return server, () if server is None else list_from_json(server.get("/api/nodes")).nodes
    except AndonError:
        return None, ()


def node_details(
    server: Server, name: str, now: float
) -> tuple[Snapshot, Mapping[str, Sequence[Bucket]]]:
    """Returns a node's devices, and the history of those on which nothing runs; AndonError or
    ValueError if it has none."""
    there = server.of_node(name)
    snapshot = snapshot_from_json(there.get("/api/snapshot"))
    past, histories = RemotePast(there), dict[str, Sequence[Bucket]]()
    since = now - IDLE_SPAN_SECONDS
    for status in idle_devices(snapshot)[:MOST_DETAILED]:
        uuid = status.device.uuid
        with suppress(AndonError):
            histories[uuid] = past.history(uuid, "utilization_percent", since, now, POINTS)
    return snapshot, histories
