"""Which node a request is about: routes that read get it here, as their caller may see it."""

from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

from andon.access.roles import OF_A_HUB, Identity
from andon.errors import Gone
from andon.web.app_state import AppState
from andon.web.fleet.node_state import node_state
from andon.web.fleet.paths import NODE
from andon.web.served.node import ServingNode
from andon.web.transport.auth import caller_of


async def picked(request: Request) -> ServingNode:
    """Returns the node that the path names, of a hub; else this server's own."""
    state: AppState = request.app.state.server
    who, name = caller_of(request.scope), request.scope.get(NODE)
    if name is None:
        return ServingNode(state, who)
    if state.fleet is None:
        raise Gone("this server is not a hub", hint="it shows its own node: /api/nodes")
    there = await run_in_threadpool(
        state.fleet.state_of, name, lambda node: node_state(node, state.keys)
    )
    # An account of the hub's machine is not the one of the same name on another.
    return ServingNode(there, who if who.role in OF_A_HUB else Identity())


async def refuse_below_node(request: Request) -> None:
    """A dependency of every route; raises Gone below a node for what is not a node's."""
    route = request.scope.get("route")
    if NODE not in request.scope or not isinstance(route, APIRoute):
        return
    if all(one.call is not picked for one in route.dependant.dependencies):
        raise Gone(f"{request.url.path[:200]} is not about a node", hint="GET /openapi.json")


Picked = Annotated[ServingNode, Depends(picked)]
