"""REST for estimates: a model by name or by its config, compared with this node's GPUs."""

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from andon.core.estimate.estimating import estimate
from andon.core.estimate.fits import rooms_of
from andon.core.estimate.wire import estimate_to_json
from andon.engine.sampling.snapshot_feed import SnapshotFeed
from andon.model.wire import dumps
from andon.web.answers.estimates import EstimateRequest, requested_facts, requested_options
from andon.web.blocking_pool import BlockingPool

if TYPE_CHECKING:  # locks are not on every system
    from andon.engine.sharing.remote_leases import RemoteLeases


def estimate_routes(
    router: APIRouter, feed: SnapshotFeed, remote_leases: "RemoteLeases | None"
) -> None:
    """It only computes: no file is read, and nothing changes."""
    pool = BlockingPool()

    def answered(given: EstimateRequest) -> bytes:
        facts, options = requested_facts(given), requested_options(given)
        snapshot, verdicts = feed.latest(), None
        if remote_leases is not None:
            listed = remote_leases.listed()
            verdicts = {one.uuid: one for one in listed.devices}
        found = estimate(facts, options, rooms_of(snapshot, verdicts))
        return dumps(estimate_to_json(found)).encode("utf-8", "replace")

    @router.post("/api/estimate", tags=["share"])
    async def estimated(request: Request, given: EstimateRequest) -> Response:
        """andon.estimate/1: what a model needs, and which of this node's GPUs it fits on."""
        body = await pool.do(request, lambda _: answered(given))
        return Response(body, media_type="application/json")
