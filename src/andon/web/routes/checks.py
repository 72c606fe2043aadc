"""REST for what `andon check` found: on a node, and on all nodes of a hub."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from andon.model.check import CheckList, FleetChecks
from andon.model.codec import document, to_json
from andon.web.route_parts import RouteParts
from andon.web.routes.nodes import fleet_of
from andon.web.routes.picked import Picked
from andon.web.routes.responses import sent_json

MOST = 1000


def check_routes(router: APIRouter, parts: RouteParts) -> None:
    """All of /api/checks."""

    @router.get("/api/checks", tags=["explain"])
    def checks(
        node: Picked, device: Annotated[str, Query(max_length=200, description="its uuid")] = ""
    ) -> Response:
        """andon.checks/1: earlier checks of the node's devices, the oldest first."""
        found = [one for one in node.past.checks() if device in ("", one.uuid)]
        return sent_json(document(CheckList(tuple(found[-MOST:]))))

    @router.get("/api/checks/fleet", tags=["fleet"])
    def fleet(model: Annotated[str, Query(max_length=200)]) -> Response:
        """The last check of each card of this model on the nodes of a hub, in a few numbers."""
        return sent_json(to_json(FleetChecks(tuple(fleet_of(parts).hub.checks(model)))))
