"""REST for reservations: list, make, change and cancel them."""

import time
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from andon.errors import Invalid
from andon.host.clock import offset
from andon.leases.rules.requests import options_from_rest
from andon.model.codec import document, to_json
from andon.model.lease import Reservation
from andon.model.lease_list import ReservationList
from andon.settings.moments import weekly
from andon.web.answers.requests import ReservationBody, ReservedTime
from andon.web.blocking_pool import BlockingPool
from andon.web.routes.picked import Picked
from andon.web.routes.responses import sent_json
from andon.web.transport.auth import add_notes

Named = Annotated[str, Path(min_length=1, max_length=100, description="the reservation's id")]


def reservation_routes(router: APIRouter) -> None:
    """All of /api/reservations."""
    pool = BlockingPool("reservation")

    @router.get("/api/reservations", tags=["share"])
    def reservations(node: Picked) -> Response:
        """andon.reservations/1: what is reserved and not over, by whom and from when to when."""
        found = node.leases.listed()
        return sent_json(document(ReservationList(found.at, found.reservations)))

    @router.post("/api/reservations", tags=["share"], status_code=201)
    async def reserve(request: Request, node: Picked, given: ReservationBody) -> Response:
        """Reserve devices for a time to come; needs a key. It belongs to the caller's account.
        Weekly ones are all made or none; the answer is the first."""
        wanted, leases = options_from_rest(dict(given)).request(), node.leases
        begins = time.time() if given.begins is None else given.begins
        _refuse_two_ends(given)
        if given.ends is None and given.seconds is None:
            raise Invalid("a reservation needs one of seconds and ends", hint='{"seconds": 7200}')
        ends = begins + given.seconds if given.ends is None else given.ends
        clock = offset(given.zone, "zone: ")
        times = weekly(begins, ends, given.weekly, clock, given.ends is not None)
        made = await pool.do(request, lambda _: leases.reserve(wanted, times, given.name))
        return _sent(request, made, 201)

    @router.patch("/api/reservations/{reservation}", tags=["share"])
    async def change(
        request: Request, node: Picked, reservation: Named, given: ReservedTime
    ) -> Response:
        """Move a reservation to another time; needs a key of its owner."""
        leases = node.leases
        _refuse_two_ends(given)
        if given == ReservedTime():
            raise Invalid("nothing is changed", hint="begins, ends or seconds")
        times = given.begins, given.ends, given.seconds
        moved = await pool.do(request, lambda _: leases.change_reservation(reservation, *times))
        return _sent(request, [moved])

    @router.delete("/api/reservations/{reservation}", tags=["share"])
    async def cancel(request: Request, node: Picked, reservation: Named) -> Response:
        """Give a reservation back; needs a key of its owner, or of the server's."""
        leases = node.leases
        ended = await pool.do(request, lambda _: leases.cancel_reservation(reservation))
        return _sent(request, [ended])


def _refuse_two_ends(given: ReservedTime) -> None:
    if given.ends is not None and given.seconds is not None:
        raise Invalid("seconds and ends cannot be combined")


def _sent(request: Request, found: Sequence[Reservation], status: int = 200) -> Response:
    """Answers with the first of some reservations; the audit log names all."""
    one, names = found[0], " ".join(each.id for each in found)
    devices = [device.uuid for device in one.devices]
    add_notes(
        request.scope, reservation=names, user=one.user, devices=devices, begins=one.begins,
        ends=one.ends,
    )  # fmt: skip
    return sent_json(to_json(one), status)
