"""A node's leases, as one caller may see and change them."""

from collections.abc import Callable, Sequence

from andon.access.roles import (
    RIGHTS,
    Action,
    Identity,
    RightExtent,
    Role,
    Sight,
    refusal_for,
    signature,
)
from andon.errors import Denied
from andon.leases.book.holder import Account
from andon.leases.network import RemoteLease
from andon.leases.rules.reservations import for_user
from andon.model.device import Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.lease import Reservation
from andon.model.lease_list import LeaseList, LeaseRow
from andon.model.verdict import DeviceVerdict
from andon.node.seen.sights import leases_seen_by, seen_by
from andon.node.watched.leases import ServedLeases


class SeenLeases:
    """Commands and fences of others are hidden. A caller changes only what is theirs."""

    def __init__(
        self, leases: ServedLeases, who: Identity, sight: Sight, server_user: str | None
    ) -> None:
        self._leases, self._who, self._sight = leases, who, sight
        self._server_user = server_user
        self.holders, self.offer = leases.holders, leases.offer

    @property
    def supported(self) -> bool:
        return self._leases.supported

    def listed(self) -> LeaseList:
        return self.seen(self._leases.listed())

    def verdicts(self, snapshot: Snapshot) -> tuple[DeviceVerdict, ...]:
        return self.listed().devices if self.supported else ()

    def seen(self, found: LeaseList) -> LeaseList:
        """Returns a list as the caller may see it, with the verdicts for the caller; for those of
        the server itself as it is."""
        if found.reservations and self._who.role is not Role.OWNER:
            found = for_user(found, self._who.uid)
        return leases_seen_by(self._who, found, self._server_user)

    def listing(
        self, mine: bool = False, snapshot: Snapshot | None = None
    ) -> tuple[Snapshot, LeaseList, Sequence[str]]:
        read, found, remarks = self._leases.listing(mine, snapshot)
        shown = self.seen(found)
        if mine:
            shown = shown.of(self._who.uid, self._who.user)
        return snapshot or seen_by(self._sight, read), shown, remarks

    def lend(
        self,
        request: DeviceRequest,
        seconds: float,
        wait_seconds: float,
        command: str,
        waiting: Callable[[], None],
        whom: str = "",
    ) -> "RemoteLease":
        """Takes a lease for the caller's account; an owner may take one for `whom`."""
        self._refuse(Action.TAKE)
        account = _account(self._who)
        if account is not None and request.priority > 0:
            raise Denied(
                f"{account.name} may not use a priority above 0", hint="use 0 or less; or ask root"
            )
        lend, whom = self._leases.book.lend, "" if account else whom
        return lend(request, seconds, wait_seconds, command, waiting, account, whom)

    def release(self, name: str, note: str, fence: int | None = None) -> str:
        for_uid, by = self._refuse(Action.RELEASE), signature(self._who, "") or None
        return self._leases.book_with(name).release(name, fence, note, by, for_uid).id

    def renew(self, name: str, seconds: float, fence: int | None) -> LeaseRow:
        for_uid = self._refuse(Action.EXTEND)
        return self._leases.book_with(name).renew(name, seconds, fence, for_uid)

    def extend(self, name: str, seconds: float) -> tuple[str, float]:
        row = self.renew(name, seconds, None)
        return row.id or "", row.until or 0.0

    def reserve(
        self, request: DeviceRequest, times: Sequence[tuple[float, float]], name: str
    ) -> Sequence[Reservation]:
        """Reserves devices for the caller's account; the server's owners for the server's user."""
        self._refuse(Action.RESERVE)
        return self._leases.book.reserve(request, times, name, _account(self._who))

    def change_reservation(
        self, name: str, begins: float | None, ends: float | None, seconds: float | None
    ) -> Reservation:
        self._refuse(Action.RESERVE)
        book = self._leases.book
        return book.change_reservation(name, begins, ends, seconds, _account(self._who))

    def cancel_reservation(self, name: str) -> Reservation:
        self._refuse(Action.UNRESERVE)
        return self._leases.book.cancel_reservation(name, _account(self._who))

    def cordon(self, uuid: str, reason: str) -> None:
        self._refuse(Action.CORDON)
        self._leases.book.cordon(uuid, reason, signature(self._who, ""))

    def uncordon(self, uuid: str) -> None:
        self._refuse(Action.CORDON)
        self._leases.book.uncordon(uuid)

    def _refuse(self, action: Action) -> int | None:
        """Raises Denied unless the caller may do the action; returns the only uid whose leases they
        may change, None for anyone's."""
        if (refused := refusal_for(self._who, action, is_own=True)) is not None:
            raise refused
        everyone = RIGHTS[self._who.role][action] is RightExtent.ALL
        return None if everyone else self._who.uid


def _account(who: Identity) -> "Account | None":
    """Returns the account that something is done for; None for the server's own user."""
    if who.role is not Role.USER or who.uid is None:
        return None
    import pwd

    try:
        found = pwd.getpwuid(who.uid)
    except KeyError as exc:
        raise Denied(f"{who.user} has no account here any more", hint="sign in again") from exc
    return Account(found.pw_uid, found.pw_gid, found.pw_name)
