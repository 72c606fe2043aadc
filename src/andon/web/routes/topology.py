"""REST for the topology and for estimates."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from andon.estimate.rules.estimating import estimate
from andon.estimate.rules.fits import GpuRoom, rooms_of
from andon.estimate.rules.gpu_sizes import rooms_on
from andon.estimate.rules.wire import estimate_to_json
from andon.model.device import Snapshot
from andon.model.links import topology_to_json
from andon.model.shapes import to_json
from andon.model.wire import dumps
from andon.sampling.snapshot_feed import SnapshotFeed
from andon.web.answers.estimates import EstimateRequest, known_names, requested
from andon.web.blocking_pool import BlockingPool
from andon.web.history_reader import HistoryReader

if TYPE_CHECKING:
    from andon.leases.network import NetworkLeases


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


# REST for estimates: a model by name or by its config, compared with this node's GPUs.


def estimate_routes(
    router: APIRouter, feed: SnapshotFeed, remote_leases: "NetworkLeases | None"
) -> None:
    """Adds /api/estimate; it only computes: no file is read, and nothing changes."""
    pool = BlockingPool()

    def answered(given: EstimateRequest) -> bytes:
        asked = requested(given)
        is_elsewhere = given.on_gpus is not None
        rooms = here() if given.on_gpus is None else rooms_on(given.on_gpus)
        found = estimate(
            asked.facts, asked.options, rooms, None, asked.command, is_elsewhere=is_elsewhere
        )
        value = {**estimate_to_json(found), "understood": asked.understood}
        return dumps(value).encode("utf-8", "replace")

    def here() -> tuple[GpuRoom, ...]:
        verdicts = None
        if remote_leases is not None:
            verdicts = {one.uuid: one for one in remote_leases.listed().devices}
        return rooms_of(feed.latest(), verdicts)

    @router.get("/api/estimate", tags=["share"])
    async def estimate_names() -> Response:
        """The models and GPUs that can be named in an estimate."""
        return Response(dumps(to_json(known_names())), media_type="application/json")

    @router.post("/api/estimate", tags=["share"])
    async def estimated(request: Request, given: EstimateRequest) -> Response:
        """andon.estimate/1: what a model needs, and which of this node's GPUs it fits on."""
        body = await pool.do(request, lambda _: answered(given))
        return Response(body, media_type="application/json")
