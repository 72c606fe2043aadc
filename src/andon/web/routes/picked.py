"""Which node a request is about: routes that read get it here, as their caller may see it."""

from typing import Annotated

from fastapi import Depends, Request

from andon.web.app_state import AppState
from andon.web.served.node import ServingNode
from andon.web.transport.auth import caller_of


async def picked(request: Request) -> ServingNode:
    """Returns the node of this server, the only one that it knows."""
    state: AppState = request.app.state.server
    return ServingNode(state, caller_of(request.scope))


Picked = Annotated[ServingNode, Depends(picked)]
