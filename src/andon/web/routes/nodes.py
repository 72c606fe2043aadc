"""REST for the nodes of a hub: their list, who may report, and which are drained."""

import time
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from andon.errors import Gone
from andon.fleet.rules.states import NodeList, list_to_text, scrape_targets
from andon.version import __version__
from andon.web.answers.requests import RequestBody
from andon.web.fleet.listing import rows_for
from andon.web.fleet.nodes import Fleet
from andon.web.route_parts import RouteParts
from andon.web.routes.picked import Picked
from andon.web.routes.responses import dumped, sent, sent_json
from andon.web.transport.auth import add_notes

NodeName = Annotated[str, Path(max_length=63)]


class NodeRequest(RequestBody):
    """A node that may report from now on."""

    name: Annotated[str, Field(min_length=1, max_length=63)]


def node_routes(router: APIRouter, parts: RouteParts) -> None:
    """All of /api/nodes. What is below a node is answered by the routes of the server's own."""

    @router.get("/api/nodes", tags=["fleet"])
    def nodes(node: Picked) -> Response:
        """andon.nodes/1: every node with its devices, what is allocated and how busy it is."""
        hub, own = None if parts.fleet is None else parts.fleet.hub, node.live.latest().node
        rows = tuple(rows_for(node, hub))
        listed = NodeList(time.time(), hub is not None, rows, __version__, own)
        return sent(list_to_text(listed).encode("utf-8", "replace"))

    @router.get("/api/nodes/targets", tags=["fleet"])
    def targets() -> Response:
        """Where the nodes' own metrics are, as Prometheus' http_sd_configs reads it."""
        return sent(dumped(scrape_targets(fleet_of(parts).hub.rows())))

    @router.post("/api/nodes", tags=["fleet"])
    def add_node(request: Request, given: NodeRequest) -> Response:
        """Let a node report; the answer has its token, which is shown only once."""
        add_notes(request.scope, node=given.name)
        hub = fleet_of(parts).hub
        return sent_json({"name": given.name, "token": hub.add(given.name), "pin": hub.pin})

    @router.post("/api/nodes/{name}/drain", tags=["fleet"])
    def drain(name: NodeName) -> Response:
        """Mark a node: it gets no new work. What runs there goes on."""
        fleet_of(parts).hub.drain(name, True)
        return sent_json({"name": name, "drained": True})

    @router.post("/api/nodes/{name}/resume", tags=["fleet"])
    def resume(name: NodeName) -> Response:
        """End the mark of a drained node."""
        fleet_of(parts).hub.drain(name, False)
        return sent_json({"name": name, "drained": False})

    @router.delete("/api/nodes/{name}", tags=["fleet"])
    def remove_node(request: Request, name: NodeName, history: bool = False) -> Response:
        """Remove a node: its token ends. With `history` all that it sent is deleted, which is
        otherwise kept; also of one that was removed before."""
        add_notes(request.scope, history=history)
        fleet_of(parts).remove(name, history)
        return sent_json({"name": name, "removed": True, "history": history})


def fleet_of(parts: RouteParts) -> Fleet:
    """Returns the nodes of this hub; raises Gone on a server that is none."""
    if parts.fleet is None:
        hint = "one keeps its nodes in PostgreSQL: andon hub --store URL"
        raise Gone("this server is not a hub", hint=hint)
    return parts.fleet
