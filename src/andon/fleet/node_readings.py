"""Reads from an andon hub how busy the nodes of a cluster are, and who leaves GPUs idle."""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from andon.errors import AndonError
from andon.fleet.rules.node_readings import NodeDevices, idle_devices, idle_seconds, with_reading
from andon.fleet.rules.states import NodeList, NodeRow
from andon.jobs.clusters.asking import uncounted
from andon.model.codec import read_document
from andon.model.job.cluster import ClusterNode
from andon.model.wire_in import snapshot_from_json
from andon.node.remote.past import RemotePast
from andon.node.server import Server, connect, own_server

IDLE_SPAN_SECONDS: Final = 86_400.0
"""How far back a GPU's last work is looked for."""
MOST_DETAILED: Final = 20
"""Nodes and devices that are read one by one."""
DETAILS_SECONDS: Final = 10.0
"""The time in which such reads may begin."""
POINTS: Final = 288
"""Of that span: five minutes each, by which the time may be wrong."""


def hub_of(url: str) -> Server | None:
    """Returns the hub, or this machine's server; None if there is neither."""
    return connect(url, None, lambda _: None) if url else own_server()


@uncounted()
def read_nodes(hub: str, nodes: Sequence[ClusterNode], details: bool = True) -> list[ClusterNode]:
    """Returns a cluster's nodes with what a hub, or this machine's server, reads on them; `details`
    adds devices, and who leaves them idle. This time does not count as the cluster's."""
    server, rows = _rows(hub)
    found, queried, until = list[ClusterNode](), 0, time.monotonic() + DETAILS_SECONDS
    for node in nodes:
        row = next((rows[name] for name in (node.name, node.host) if name in rows), None)
        read = with_reading(node, row)
        more = details and queried < MOST_DETAILED and time.monotonic() < until
        if row is not None and row.heard and node.allocated and more:
            queried += 1
            with suppress(AndonError, ValueError):
                assert server is not None
                read = with_reading(node, row, _devices(server, row.name, time.time()))
        found.append(read)
    return found


def _rows(hub: str) -> tuple[Server | None, dict[str | None, NodeRow]]:
    try:
        server = hub_of(hub)
        rows = () if server is None else read_document(NodeList, server.get("/api/nodes")).nodes
    except AndonError:
        return None, {}
    return server, {row.name: row for row in rows}


def _devices(server: Server, name: str, now: float) -> NodeDevices:
    """Returns a node's devices, and for how long the unused ones have been idle; raises AndonError
    or ValueError if it has none."""
    there = server.of_node(name)
    snapshot = snapshot_from_json(there.get("/api/snapshot"))
    past, idle = RemotePast(there), dict[str, float | None]()
    since = now - IDLE_SPAN_SECONDS
    for status in idle_devices(snapshot.devices)[:MOST_DETAILED]:
        uuid = status.device.uuid
        with suppress(AndonError):
            found = past.history(uuid, "utilization_percent", since, now, POINTS)
            idle[uuid] = idle_seconds(found, now)
    return NodeDevices(snapshot, idle, now)
