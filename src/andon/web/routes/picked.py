"""Which node a request is about: routes that read get it here, as their caller may see it."""

from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

from andon.errors import Gone
from andon.node.seen.node import SeenNode
from andon.web.fleet.paths import NODE
from andon.web.route_parts import RouteParts
from andon.web.transport.auth import caller_of


async def picked(request: Request) -> SeenNode:
    """Returns the node that the path names, of a hub; else this server's own."""
    parts: RouteParts = request.app.state.server
    who, name = caller_of(request.scope), request.scope.get(NODE)
    if name is None or (parts.fleet is not None and name == parts.fleet.hub.own):
        return SeenNode(parts.node, who)
    if parts.fleet is None:
        raise Gone("this server is not a hub", hint="it shows its own node: /api/nodes")
    return SeenNode(await run_in_threadpool(parts.fleet.node, name), who)


async def refuse_below_node(request: Request) -> None:
    """A dependency of every route; raises Gone below a node for what is not a node's."""
    route = request.scope.get("route")
    if NODE not in request.scope or not isinstance(route, APIRoute):
        return
    if all(one.call is not picked for one in route.dependant.dependencies):
        raise Gone(f"{request.url.path[:200]} is not about a node", hint="GET /openapi.json")


Picked = Annotated[SeenNode, Depends(picked)]
