"""REST for the nodes of a hub: their list, who may report, and which are drained."""

import time
from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field

from andon.alerts.rules.listing import entries, firing_by_level
from andon.errors import Gone
from andon.fleet.rules.digest import digest_of
from andon.fleet.rules.nodes import FleetNode
from andon.fleet.rules.states import (
    NodeList,
    NodeRow,
    list_to_text,
    row_of,
    scrape_targets,
    without_names,
)
from andon.model.device import Snapshot
from andon.model.lamp import DeviceLamp
from andon.model.lease_list import LeaseList
from andon.node.seen.node import SeenNode
from andon.version import __version__
from andon.web.fleet.hub import Hub
from andon.web.route_parts import RouteParts
from andon.web.routes.picked import Picked
from andon.web.routes.responses import dumped, sent, sent_json
from andon.web.transport.auth import add_notes

NodeName = Annotated[str, Path(max_length=63)]
NO_HUB = Gone(
    "this server is not a hub", hint="one keeps its nodes in PostgreSQL: andon hub --store URL"
)


class NodeRequest(BaseModel):
    """A node that may report from now on."""

    model_config = ConfigDict(extra="forbid")
    name: Annotated[str, Field(min_length=1, max_length=63)]


def node_routes(router: APIRouter, parts: RouteParts) -> None:
    """All of /api/nodes. What is below a node is answered by the routes of the server's own."""

    @router.get("/api/nodes", tags=["fleet"])
    def nodes(node: Picked) -> Response:
        """andon.nodes/1: every node with its devices, what is allocated and how busy it is."""
        own = _own(node)
        rows = [] if parts.fleet is None else parts.fleet.hub.rows()
        rows = rows if node.sight.everything else [without_names(row) for row in rows]
        if parts.fleet is None or (own.gpus and own.name not in {row.name for row in rows}):
            rows = [own, *rows]
        listed = NodeList(time.time(), parts.fleet is not None, tuple(rows), __version__)
        return Response(
            list_to_text(listed).encode("utf-8", "replace"), media_type="application/json"
        )

    @router.get("/api/nodes/targets", tags=["fleet"])
    def targets() -> Response:
        """Where the nodes' own metrics are, as Prometheus' http_sd_configs reads it."""
        return sent(dumped(scrape_targets(_hub(parts).rows())))

    @router.post("/api/nodes", tags=["fleet"])
    def add_node(request: Request, given: NodeRequest) -> Response:
        """Let a node report; the answer has its token, which is shown only once."""
        add_notes(request.scope, node=given.name)
        hub = _hub(parts)
        return sent_json({"name": given.name, "token": hub.add(given.name), "pin": hub.pin})

    @router.post("/api/nodes/{name}/drain", tags=["fleet"])
    def drain(name: NodeName) -> Response:
        """Mark a node: it gets no new work. What runs there goes on."""
        _hub(parts).drain(name, True)
        return sent_json({"name": name, "drained": True})

    @router.post("/api/nodes/{name}/resume", tags=["fleet"])
    def resume(name: NodeName) -> Response:
        """End the mark of a drained node."""
        _hub(parts).drain(name, False)
        return sent_json({"name": name, "drained": False})

    @router.delete("/api/nodes/{name}", tags=["fleet"])
    def remove_node(request: Request, name: NodeName, history: bool = False) -> Response:
        """Remove a node: its token ends. With `history` all that it sent is deleted, which is
        otherwise kept; also of one that was removed before."""
        add_notes(request.scope, history=history)
        if parts.fleet is None:
            raise NO_HUB
        parts.fleet.remove(name, history)
        return sent_json({"name": name, "removed": True, "history": history})


def _own(node: SeenNode) -> NodeRow:
    """Returns the row of this server's own node."""
    snapshot = node.live.latest()
    leases = node.leases.listed() if node.leases.kept else None
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


def _hub(parts: RouteParts) -> Hub:
    if parts.fleet is None:
        raise NO_HUB
    return parts.fleet.hub
