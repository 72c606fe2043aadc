"""REST for the topology: how this node's devices are linked, and which CPUs are next to them."""

from collections.abc import Callable

from fastapi import APIRouter, Request, Response

from andon.model.device import Snapshot
from andon.model.links import topology_to_json
from andon.model.wire import dumps
from andon.web.history_reader import HistoryReader


def topology_routes(
    router: APIRouter, placed: Callable[[], Snapshot], reader: HistoryReader
) -> None:
    """Adds the route of the topology; the first request asks the drivers, which takes a moment."""

    @router.get("/api/topology", tags=["watch"])
    async def topology(request: Request) -> Response:
        """andon.topology/1: NVLink, PCIe switches and NUMA nodes."""

        def made() -> bytes:
            return dumps(topology_to_json(placed())).encode("utf-8", "replace")

        body = await reader.read(request, "topology", made)
        return Response(body, media_type="application/json")
