"""The list of nodes as one caller may see it: a server's own, and those that report to a hub."""

import time
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from andon.alerts.rules.listing import entries, firing_by_level
from andon.fleet.rules.digest import digest_of
from andon.fleet.rules.nodes import FleetNode
from andon.fleet.rules.states import NodeRow, row_of, without_names
from andon.model.device import Snapshot
from andon.model.lamp import DeviceLamp
from andon.model.lease_list import LeaseList
from andon.node.seen.node import SeenNode
from andon.version import __version__
from andon.web.fleet.hub import Hub


def rows_for(node: SeenNode, hub: Hub | None) -> list[NodeRow]:
    """Returns the rows of a hub's nodes, or that of a server's own; reads the database."""
    own = _own(node)
    if hub is None:
        return [own]
    known = {row.name: row for row in hub.rows()}
    if own.gpus and not (own.name in known and known[own.name].heard):  # this hub has just begun
        drained = own.name in known and known[own.name].drained
        known[own.name] = replace(own, drained=drained)
    rows = [*known.values()]
    return rows if node.sight.everything else [without_names(row) for row in rows]


def _own(node: SeenNode) -> NodeRow:
    """Returns the row of this server's own node."""
    snapshot = node.live.latest()
    leases = node.leases.listed() if node.leases.supported else None
    lamps = node.live.lamps(snapshot)
    firing = firing_by_level(entries(node.alerts.current()))
    return own_row(snapshot, leases, lamps, firing, time.time())


def own_row(
    snapshot: Snapshot,
    leases: LeaseList | None,
    lamps: Sequence[DeviceLamp],
    firing: Mapping[str, int],
    now: float,
) -> NodeRow:
    digest = digest_of(snapshot, leases, lamps, firing, {}, "here", __version__)
    row = row_of(FleetNode(snapshot.node, "", 0.0), digest, 0.0)
    return replace(row, age_seconds=round(max(0.0, now - snapshot.at), 1))
