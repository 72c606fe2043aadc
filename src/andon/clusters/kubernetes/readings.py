"""What an andon hub knows of the cluster's nodes: how busy they are, and who leaves GPUs idle."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from andon.clusters.hub import MOST_DETAILED, hub_rows, node_details
from andon.clusters.kubernetes.rules.looks import detailed, look_of
from andon.clusters.kubernetes.rules.rooms import NodeLook, Room
from andon.errors import AndonError


def hub_looks(url: str, rooms: Sequence[Room] = ()) -> Mapping[str, NodeLook]:
    """Returns the readings of nodes by name, those of these rooms with who leaves GPUs idle; none
    if there is no hub, or it does not answer."""
    server, found = hub_rows(url)
    looks = {row.name: look_of(row) for row in found}
    busy = {room.name: room for room in rooms if room.holders}
    for row in [row for row in found if row.heard and row.name in busy][:MOST_DETAILED]:
        with suppress(AndonError, ValueError):
            assert server is not None
            now = time.time()
            told = node_details(server, row.name, now)
            looks[row.name] = detailed(look_of(row), *told, busy[row.name], now)
    return looks
