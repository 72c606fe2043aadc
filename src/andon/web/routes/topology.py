"""REST for the topology and for estimates."""

from fastapi import APIRouter, Request, Response

from andon.estimate.rules.estimating import estimate
from andon.estimate.rules.fits import GpuCapacity, gpu_capacities
from andon.estimate.rules.gpu_sizes import capacities_on
from andon.estimate.rules.wire import estimate_answer
from andon.model.codec import document
from andon.model.links import topology_to_json
from andon.node.seen.node import SeenNode
from andon.web.answers.estimates import EstimateRequest, known_names, requested
from andon.web.blocking_pool import BlockingPool
from andon.web.history_reader import HistoryReader
from andon.web.routes.picked import Picked
from andon.web.routes.responses import dumped, sent, shaped


def topology_routes(router: APIRouter, reader: HistoryReader) -> None:
    """Adds the route of the topology; the first request asks the drivers, which takes a moment."""

    @router.get("/api/topology", tags=["watch"])
    async def topology(request: Request, node: Picked) -> Response:
        """andon.topology/1: NVLink, PCIe switches and NUMA nodes."""

        def made() -> bytes:
            return dumped(topology_to_json(node.live.placed()))

        return sent(await reader.read(request, "topology", made))


# REST for estimates: a model by name or by its config, compared with this node's GPUs.


def estimate_routes(router: APIRouter) -> None:
    """Adds /api/estimate; it only computes: no file is read, and nothing changes."""
    pool = BlockingPool("estimate")

    def answered(given: EstimateRequest, node: SeenNode) -> bytes:
        question = requested(given)
        is_elsewhere = given.on_gpus is not None
        capacities = own_gpus(node) if given.on_gpus is None else capacities_on(given.on_gpus)
        found = estimate(
            question.facts,
            question.options,
            capacities,
            None,
            question.command,
            is_elsewhere=is_elsewhere,
        )
        return dumped(document(estimate_answer(found, question.understood)))

    def own_gpus(node: SeenNode) -> tuple[GpuCapacity, ...]:
        snapshot = node.live.latest()
        known = {one.uuid: one for one in node.leases.verdicts(snapshot)}
        return gpu_capacities(snapshot, known if node.leases.supported else None)

    @router.get("/api/estimate", tags=["share"])
    async def estimate_names() -> Response:
        """The models and GPUs that can be named in an estimate."""
        return sent(shaped(known_names()))

    @router.post("/api/estimate", tags=["share"])
    async def estimated(request: Request, node: Picked, given: EstimateRequest) -> Response:
        """andon.estimate/1: what a model needs, and which of this node's GPUs it fits on."""
        return sent(await pool.do(request, lambda _: answered(given, node)))
