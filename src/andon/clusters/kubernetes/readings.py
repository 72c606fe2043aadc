"""What an andon hub knows of the cluster's nodes: how busy they are, and who leaves GPUs idle."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from andon.clusters.kubernetes.rules.looks import IDLE_SPAN_SECONDS, detailed, idle_devices, look_of
from andon.clusters.kubernetes.rules.rooms import NodeLook, Room
from andon.errors import AndonError
from andon.fleet.rules.states import NodeRow, list_from_json
from andon.history.rules.series import Bucket
from andon.model.wire_in import snapshot_from_json
from andon.node.remote.past import RemotePast
from andon.node.server import Server, connect, own_server

MOST_DETAILED: Final = 20
"""Nodes and devices that are asked about one by one."""
POINTS: Final = 96


def hub_looks(url: str, rooms: Sequence[Room] = ()) -> Mapping[str, NodeLook]:
    """Returns the readings of nodes by name, those of these rooms with who leaves GPUs idle; none
    if there is no hub, or it does not answer."""
    try:
        server = hub_of(url)
        found = () if server is None else list_from_json(server.get("/api/nodes")).nodes
    except AndonError:
        return {}
    looks = {row.name: look_of(row) for row in found}
    busy = {room.name: room for room in rooms if room.holders}
    for row in [row for row in found if row.heard and row.name in busy][:MOST_DETAILED]:
        with suppress(AndonError, ValueError):
            assert server is not None
            looks[row.name] = _detailed(server.of_node(row.name), row, busy[row.name])
    return looks


def hub_of(url: str) -> Server | None:
    """Returns the hub, or this machine's server; None if there is neither."""
    return connect(url, None, lambda _: None) if url else own_server()


def _detailed(server: Server, row: NodeRow, room: Room) -> NodeLook:
    snapshot, now = snapshot_from_json(server.get("/api/snapshot")), time.time()
    past = RemotePast(server)
    since = now - IDLE_SPAN_SECONDS
    histories = dict[str, Sequence[Bucket]]()
    for status in idle_devices(snapshot)[:MOST_DETAILED]:
        uuid = status.device.uuid
        with suppress(AndonError):
            histories[uuid] = past.history(uuid, "utilization_percent", since, now, POINTS)
    return detailed(look_of(row), snapshot, histories, room, now)
