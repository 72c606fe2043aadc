"""REST for the nodes of a hub: their list, who may report, and which are drained."""

import time
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from andon.errors import Gone, Invalid
from andon.fleet.rules.items import SORTS, ItemKind, Wanted
from andon.fleet.rules.states import NodeList, list_to_text, scrape_targets
from andon.node.watched.past import METRICS
from andon.version import __version__
from andon.web.answers.requests import RequestBody
from andon.web.fleet.courses import MOST_NODES
from andon.web.fleet.listing import rows_for
from andon.web.fleet.nodes import Fleet
from andon.web.route_parts import RouteParts
from andon.web.routes.picked import Picked
from andon.web.routes.responses import dumped, sent, sent_json, shaped
from andon.web.transport.auth import add_notes, caller_of

NodeName = Annotated[str, Path(max_length=63)]
MOST_ITEMS = 500
Word = Annotated[str, Query(max_length=200)]


class NodeRequest(RequestBody):
    """A node that may report from now on."""

    name: Annotated[str, Field(min_length=1, max_length=63)]


def node_routes(router: APIRouter, parts: RouteParts) -> None:
    """All of /api/nodes. What is below a node is answered by the routes of the server's own."""
    _lists(router, parts)

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


def _lists(router: APIRouter, parts: RouteParts) -> None:
    """What is asked of all nodes at once."""

    @router.get("/api/nodes/items", tags=["fleet"])
    async def items(
        request: Request,
        own: Picked,
        kinds: Annotated[str, Query(max_length=60, description=", ".join(ItemKind))] = "",
        search: Word = "",
        node: Word = "",
        user: Word = "",
        sort: Annotated[str, Query(max_length=20, description=", ".join(sorted(SORTS)))] = "",
        limit: Annotated[int, Query(ge=0, le=MOST_ITEMS)] = 100,
        offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    ) -> Response:
        """What all nodes have, a line for each thing, those that need someone first."""
        fleet, who = fleet_of(parts), caller_of(request.scope)
        wanted = Wanted(_kinds(kinds), search, node, user, sort, limit, offset)
        key = ("items", own.sight, who, wanted)
        return sent(
            await parts.queue.read(request, key, lambda: shaped(fleet.items.page(own, who, wanted)))
        )

    @router.get("/api/nodes/courses", tags=["fleet"])
    async def courses(
        request: Request,
        nodes: Annotated[str, Query(max_length=7000, description="names, with commas")],
        metric: Annotated[str, Query(max_length=60)] = "utilization_percent",
    ) -> Response:
        """The last day of up to 100 nodes in half hours: a reading over each node's devices."""
        fleet, names = fleet_of(parts), tuple(sorted(set(filter(None, nodes.split(",")))))
        if metric not in METRICS or len(names) > MOST_NODES:
            hint = f"at most {MOST_NODES} nodes, and one of: {', '.join(METRICS)}"
            raise Invalid(f"not so many nodes, or not {metric!r}", hint=hint)

        def made() -> bytes:
            known = fleet.hub.nodes()
            return shaped(fleet.courses.courses([one for one in names if one in known], metric))

        return sent(await parts.past.read(request, ("courses", names, metric), made))


def _kinds(text: str) -> frozenset[ItemKind]:
    """Returns the kinds in `alert,job`; none: all of them."""
    try:
        return frozenset(ItemKind(one) for one in text.split(",") if one)
    except ValueError:
        raise Invalid(f"not kinds: {text!r}", hint=f"some of: {', '.join(ItemKind)}") from None


def fleet_of(parts: RouteParts) -> Fleet:
    """Returns the nodes of this hub; raises Gone on a server that is none."""
    if parts.fleet is None:
        hint = "one keeps its nodes in PostgreSQL: andon hub --store URL"
        raise Gone("this server is not a hub", hint=hint)
    return parts.fleet
