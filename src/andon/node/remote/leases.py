"""The leases of a server: listed, released and extended there."""

from collections.abc import Sequence
from functools import cached_property
from urllib.parse import quote, urlencode

from andon.errors import Gone, Invalid, Unavailable
from andon.leases.rules.offer import Offer, offer_by
from andon.leases.rules.rows import EMPTY
from andon.model.codec import Wrong, read, read_document
from andon.model.device import Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.lease import FURTHEST
from andon.model.lease_list import LeaseList, LeaseRow, RenewedLease
from andon.model.naming import may_mean_lease
from andon.model.verdict import DeviceVerdict
from andon.node.remote.live import RemoteLive
from andon.node.rest import RestServer


class RemoteLeases:
    """A server's leases; the server has its own users and masks, and checks rights."""

    def __init__(self, live: RemoteLive) -> None:
        self._live, self._server = live, live.server

    def listing(
        self, mine: bool = False, snapshot: Snapshot | None = None
    ) -> tuple[Snapshot, LeaseList, Sequence[str]]:
        if mine:
            raise Invalid("--mine and --url cannot be combined", hint="a server has its own users")
        return snapshot or self._live.read(), self._listed(), ()

    def verdicts(self, snapshot: Snapshot) -> tuple[DeviceVerdict, ...]:
        """Raises the server's reason if it does not know which devices are free."""
        found = self._listed()
        if found.note not in (None, EMPTY) and not found.devices:
            raise Unavailable(found.note)
        return found.devices

    def offer(self, request: DeviceRequest) -> Offer:
        snapshot = self._live.read()
        return offer_by(snapshot, {one.uuid: one for one in self.verdicts(snapshot)}, request)

    def release(self, name: str, note: str) -> str:
        row = self._own_row(name)
        given = {"fence": row.fence, "note": note or None}
        query = urlencode({key: value for key, value in given.items() if value is not None})
        place = _place(row)
        self._as_user.delete(f"{place}?{query}" if query else place)
        return row.id or ""

    def extend(self, name: str, seconds: float) -> tuple[str, float]:
        row = self._own_row(name)
        body = {"seconds": seconds, "fence": row.fence}
        payload = self._as_user.post(f"{_place(row)}/renew", body)
        try:
            found = read(RenewedLease, payload)
            return found.id, min(found.until, FURTHEST)
        except Wrong as wrong:
            raise self._server.of_another_version(str(wrong)) from wrong

    def close(self) -> None:
        if "_as_user" in self.__dict__:
            self._as_user.close()

    @cached_property
    def _as_user(self) -> RestServer:
        return self._server.as_user()

    def _own_row(self, name: str) -> LeaseRow:
        """Returns a lease as its holder sees it: with the fence, which changing it needs."""
        return row_of(self._listed(self._as_user), name)

    def _listed(self, server: RestServer | None = None) -> LeaseList:
        try:
            return read_document(LeaseList, (server or self._server).get("/api/leases"))
        except Invalid as exc:
            raise self._server.of_another_version(exc.reason) from exc


def _place(row: LeaseRow) -> str:
    return f"/api/leases/{quote(row.id or '', safe='')}"


def row_of(found: LeaseList, name: str) -> LeaseRow:
    """Returns the lease with this id, or a prefix of it, in a server's list."""
    rows = [row for row in found.leases if row.id and may_mean_lease(name, row.id)]
    rows = [row for row in rows if row.id == name] or rows
    if not rows or not name:
        raise Gone(f"there is no lease {name[:40]!r}", hint="to list them: andon leases")
    if len(rows) > 1:
        raise Invalid(f"{len(rows)} leases begin with {name[:40]!r}", hint="give more of the id")
    return rows[0]
