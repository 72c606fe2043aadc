"""REST for leases: list, request, renew and release them; cordon devices."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from andon.leases.rules.requests import options_from_rest
from andon.model.codec import document
from andon.model.lease_wire import MOST_NOTE
from andon.model.naming import FORMS, device_named
from andon.model.shapes import to_json
from andon.node.seen.node import SeenNode
from andon.web.answers.payloads import grant
from andon.web.answers.requests import (
    CordonRequest,
    Fence,
    LeaseBody,
    RenewRequest,
)
from andon.web.blocking_pool import BlockingPool
from andon.web.routes.picked import Picked
from andon.web.routes.responses import sent_json
from andon.web.transport.auth import add_notes

Named = Annotated[str, Path(min_length=1, max_length=100, description="the lease's id")]
Device = Annotated[str, Path(max_length=200, description=FORMS)]


def lease_routes(router: APIRouter) -> None:
    """All of /api/leases, and the cordons of devices."""
    pool = BlockingPool("lease")

    @router.get("/api/leases", tags=["share"])
    def leases(node: Picked) -> Response:
        """andon.leases/1: leases with their actual use, the queue and the cordons."""
        return sent_json(document(node.leases.listed()))

    _asking(router, pool)
    _keeping(router, pool)
    _cordons(router, pool)


def _asking(router: APIRouter, pool: BlockingPool) -> None:
    @router.post("/api/leases", tags=["share"], status_code=201)
    async def lend(request: Request, node: Picked, given: LeaseBody) -> Response:
        """Request a lease; needs a key. It outlives the server and belongs to whoever took it."""
        wanted, leases = options_from_rest(dict(given)).request(), node.leases
        granted = await pool.do(
            request,
            lambda visit: leases.lend(
                wanted,
                given.seconds,
                given.wait_seconds,
                given.command,
                visit.go_on,
                given.whom,
            ),
            given.wait_seconds,
        )
        devices = [share.uuid for share in granted.row.devices]
        add_notes(request.scope, lease=granted.row.id, devices=devices, seconds=given.seconds)
        return sent_json(grant(granted.row, granted.environment), 201)


def _keeping(router: APIRouter, pool: BlockingPool) -> None:
    @router.post("/api/leases/{lease}/renew", tags=["share"])
    async def renew(request: Request, node: Picked, lease: Named, given: RenewRequest) -> Response:
        """Extend a lease, counted from now; needs a key and its fence."""
        leases = node.leases
        row = await pool.do(request, lambda _: leases.renew(lease, given.seconds, given.fence))
        add_notes(request.scope, lease=row.id, seconds=given.seconds)
        return sent_json(to_json(row))

    @router.delete("/api/leases/{lease}", tags=["share"])
    async def release(
        request: Request,
        node: Picked,
        lease: Named,
        fence: Annotated[Fence | None, Query()] = None,
        note: Annotated[str, Query(max_length=MOST_NOTE, description="shown to its holder")] = "",
    ) -> Response:
        """Release a lease and stop its job; needs a key and its fence."""
        leases = node.leases
        ended = await pool.do(request, lambda _: leases.release(lease, note, fence))
        add_notes(request.scope, lease=ended, note=note)
        return sent_json({"id": ended, "released": True})


def _cordons(router: APIRouter, pool: BlockingPool) -> None:
    @router.put("/api/devices/{device}/cordon", tags=["share"])
    async def cordon(
        request: Request, node: Picked, device: Device, given: CordonRequest
    ) -> Response:
        """Take a device out of service; needs the token and a server run by the book's owner."""
        uuid, leases = _uuid(node, device), node.leases
        await pool.do(request, lambda _: leases.cordon(uuid, given.reason))
        add_notes(request.scope, device=uuid)
        return sent_json({"uuid": uuid, "cordoned": True})

    @router.delete("/api/devices/{device}/cordon", tags=["share"])
    async def uncordon(request: Request, node: Picked, device: Device) -> Response:
        """Return a device to service; needs the token and a server run by the book's owner."""
        uuid, leases = _uuid(node, device), node.leases
        await pool.do(request, lambda _: leases.uncordon(uuid))
        add_notes(request.scope, device=uuid)
        return sent_json({"uuid": uuid, "cordoned": False})


def _uuid(node: SeenNode, device: str) -> str:
    return device_named(device, node.live.latest().devices).device.uuid
