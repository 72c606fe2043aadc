"""REST for the named tokens of a hub: only those who may change them see them."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from andon.access.roles import Action, refusal_for
from andon.web.answers.requests import RequestBody
from andon.web.route_parts import RouteParts
from andon.web.routes.nodes import fleet_of
from andon.web.routes.responses import sent_json
from andon.web.transport.auth import add_notes, caller_of

TokenName = Annotated[str, Path(max_length=63)]


class TokenRequest(RequestBody):
    """A token to be made."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    role: Annotated[str, Field(max_length=20)]


def token_routes(router: APIRouter, parts: RouteParts) -> None:
    @router.get("/api/tokens", tags=["fleet"])
    def tokens(request: Request) -> Response:
        """The named tokens and their roles; only for admins and the hub's owner."""
        refused = refusal_for(caller_of(request.scope), Action.MANAGE_TOKENS, is_own=True)
        if refused is not None:
            raise refused
        found = fleet_of(parts).tokens.refresh()
        rows = [{"name": one.name, "role": one.role, "added": one.added} for one in found]
        return sent_json({"tokens": rows})

    @router.post("/api/tokens", tags=["fleet"])
    def add_token(request: Request, given: TokenRequest) -> Response:
        """Make a token with a role; it is shown only in this answer."""
        add_notes(request.scope, token=given.name, role=given.role)
        token = fleet_of(parts).tokens.add(given.name, given.role)
        return sent_json({"name": given.name, "role": given.role, "token": token})

    @router.delete("/api/tokens/{name}", tags=["fleet"])
    def remove_token(name: TokenName) -> Response:
        """End a token."""
        fleet_of(parts).tokens.remove(name)
        return sent_json({"name": name, "removed": True})
