"""Leases for network callers: they outlive the server and end in time."""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import AndonError, Conflict, Denied, Gone, Invalid, Unavailable
from andon.failures.listeners import Listeners
from andon.failures.log import FailureLog
from andon.host.processes.known_kin import KnownKin
from andon.host.users import user_name
from andon.leases import releaser, reserving
from andon.leases.availability import Availability, BookContents
from andon.leases.book import places
from andon.leases.book.holder import TAKE, Account, HolderProcess
from andon.leases.book.lease_book import Book
from andon.leases.granter import Granter, LeaseTerms, Progress
from andon.leases.listing import LeaseListing, book_row, coming, read_listing
from andon.leases.own import holder_as_owner, this_requester
from andon.leases.reaper import Reaper
from andon.leases.refusal import refusal
from andon.leases.releaser import overdue
from andon.leases.rules.eligibility import Labels
from andon.leases.rules.requests import LONGEST_WAIT_SECONDS
from andon.leases.rules.rights import check_fence
from andon.leases.rules.rows import lease_row
from andon.leases.rules.spans import Span
from andon.leases.rules.verdict import in_use
from andon.model.device import Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.lease import Claim, Cordon, Lease, LeaseKind, LeaseState, Reservation
from andon.model.lease_list import LeaseList, LeaseRow
from andon.model.redaction import redact

log = logging.getLogger("andon.remote_leases")

MOST_LENT = 64  # each has its own process
CLOCK_TICK_SECONDS = 0.02  # times of files are older than the clock by up to this
RELEASE_SECONDS = 5.0  # a caller waits no longer; the holder has been asked anyway

RESERVE = "andon reserve"

Listener = Callable[[LeaseList], None]


class RemoteLease(Struct, frozen=True):
    """A lease as its caller gets it."""

    row: LeaseRow
    environment: Mapping[str, str]


class _Listed(Struct, frozen=True):
    """A cached list, its inputs, and when its book was read."""

    snapshot: Snapshot
    used: object
    leases: LeaseList
    read_at: float


class NetworkLeases:
    """Grants, renews and ends leases; every call may block, but not for long.

    `latest` returns the last snapshot; a grant reads the devices itself through the availability.
    """

    def __init__(
        self,
        availability: Availability,
        latest: Callable[[], Snapshot],
        env: Mapping[str, str] | None = None,
        longest_wait_seconds: float = LONGEST_WAIT_SECONDS,
        follows: Callable[[], str | None] = lambda: None,
        open_book: Callable[..., Book] | None = None,
        watched: Callable[[], object] = lambda: None,
        others: Callable[[Snapshot], tuple[Reservation, ...]] | None = None,
    ) -> None:
        """`follows` returns why the book cannot be read, or None; `watched` returns a new object
        when a book appears, goes or is replaced, or None if nobody watches that;
        `others` tells of reservations that are not andon's, which are only shown."""
        self._open_book = open_book or Book
        self._availability, self._latest = availability, latest
        self._longest_wait_seconds, self._follows = longest_wait_seconds, follows
        self._watched: Callable[[], object] = watched
        self._seen: object = None
        self._others = others
        self._env = os.environ if env is None else env
        self._lock, self._notifying = threading.Lock(), threading.Lock()
        self._book: Book | None = None
        self._kin = KnownKin()
        self._listed: _Listed | None = None
        self._listeners: Listeners[[LeaseList]] = Listeners(
            FailureLog("andon.remote_leases", "a listener failed; the others continue")
        )
        self._notified: object = None
        self._overdue: frozenset[str] = frozenset()
        self._reaper = Reaper(self.changed)

    # Reading.

    def listed(self, within_seconds: float = 0.0) -> LeaseList:
        """Returns every lease; read once per snapshot and change for all callers. A cached list
        may be `within_seconds` old, as long as the same processes run and the tracker has
        reported no change."""
        snapshot = self._latest()
        silent = self._follows()
        if silent is not None:  # a file system that hangs would block the caller
            return LeaseList(snapshot.at, note=silent)
        with self._lock:
            known = self._listed
            if known is None or not self._will_do(known, snapshot, within_seconds):
                read_at = time.time() - CLOCK_TICK_SECONDS
                known = _Listed(snapshot, self._used(snapshot), self._read(snapshot), read_at)
                self._listed = known
            return known.leases

    def _will_do(self, known: _Listed, snapshot: Snapshot, within_seconds: float) -> bool:
        if within_seconds == 0:  # whoever has just leased may ask before the tracker tells of it
            return known.snapshot is snapshot and not places.has_changed(self._env, known.read_at)
        young = 0 <= snapshot.at - known.snapshot.at < within_seconds
        return known.snapshot is snapshot or (young and known.used == self._used(snapshot))

    def _used(self, snapshot: Snapshot) -> object:
        return in_use(snapshot.devices), self._availability.broken()

    def changed(self) -> None:
        """Notifies the listeners with the whole list, if the book has changed."""
        with self._lock:
            self._listed = None
        with suppress(AndonError), self._notifying:  # one at a time: the newest comes last
            if self._listeners:
                self._notify(self.listed())

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Calls a listener on changes, from any thread; returns a function that stops it."""
        return self._listeners.add(listener)

    def relabel(self, labels: Labels) -> None:
        """Grants by these labels from now on."""
        self._availability = replace(self._availability, labels=labels)

    def close(self) -> None:
        """Keeps the leases: a later server finds them in the book."""
        self._reaper.close()

    # Changing.

    def lend(
        self,
        request: DeviceRequest,
        seconds: float,
        wait_seconds: float = 0.0,
        command: str = "",
        waiting: Callable[[], None] = lambda: None,
        account: Account | None = None,
        whom: str = "",
    ) -> RemoteLease:
        """Returns a lease as soon as one is available; an exception of `waiting` ends the wait.

        A user's lease is theirs in the book, which only root's server can arrange.
        """

        def still_waiting(progress: Progress) -> None:
            waiting()

        book = self._made()
        timeout = min(wait_seconds, self._longest_wait_seconds)
        _refuse_for_others(account, "take a lease", TAKE)
        self._refuse_many(book, os.getuid() if account is None else account.uid)
        self._refuse_hopeless(book, request, timeout, time.time() + seconds, _uid(account))
        holder = HolderProcess(detached=True, account=account)
        self._reaper.watch(holder.process)
        try:
            owner, purpose = holder_as_owner(holder.pid, account), redact(tuple(command.split(" ")))
            terms = LeaseTerms(
                LeaseKind.NETWORK, purpose, seconds, owner, whom=whom, uid=_uid(account)
            )
            grant = Granter(book, self._availability).grant(request, terms, timeout, still_waiting)
            holder.take_over(grant.held, waiting=waiting)  # the caller may have left meanwhile
        finally:
            holder.dismiss()
        self.changed()
        return RemoteLease(self._row(grant.held.lease), grant.environment)

    def renew(
        self, name: str, seconds: float, fence: int | None, for_uid: int | None = None
    ) -> LeaseRow:
        """Moves the end of a lease to `seconds` from now; a user can do this only for their own."""
        lease = releaser.extend(
            self._current(), name, seconds, lambda found: _check(found, name, fence), for_uid
        )
        self.changed()
        return self._row(lease)

    def release(
        self,
        name: str,
        fence: int | None,
        note: str = "",
        by: str | None = None,
        for_uid: int | None = None,
    ) -> Lease:
        """Ends a lease; its holder reads the note, and who ended it. A user ends only their own."""
        lease = releaser.release(
            self._current(),
            name,
            lambda found: _check(found, name, fence),
            RELEASE_SECONDS,
            insist=False,
            note=note,
            by=by,
            for_uid=for_uid,
        )
        self.changed()
        return lease

    def reserve(
        self,
        request: DeviceRequest,
        times: Sequence[Span],
        name: str,
        account: Account | None,
    ) -> Sequence[Reservation]:
        """Reserves devices for a user of this machine, or for the server's own."""
        _refuse_for_others(account, "reserve", RESERVE)
        book, uid = self._made(), _uid(account)
        made = reserving.reserve(self._availability, book, request, times, name, uid=uid)
        self.changed()
        return made

    def change_reservation(
        self,
        name: str,
        begins: float | None,
        ends: float | None,
        seconds: float | None,
        account: Account | None,
    ) -> Reservation:
        """Moves a reservation of that user to another time."""
        _refuse_for_others(account, "change a reservation", f"{RESERVE} change {name}")
        found = reserving.change(self._current(), name, begins, ends, seconds, uid=_uid(account))
        self.changed()
        return found

    def cancel_reservation(self, name: str, account: Account | None) -> Reservation:
        """Removes a reservation: that user's own, or whichever the server's own user may."""
        _refuse_for_others(account, "cancel a reservation", f"{RESERVE} cancel {name}")
        found = reserving.cancel(self._current(), name, _uid(account))
        self.changed()
        return found

    def cordon(self, uuid: str, reason: str, by: str = "") -> None:
        """Takes a device out of service."""
        self._made().cordon(Cordon(uuid, time.time(), by or user_name(os.getuid()), reason))
        self.changed()

    def uncordon(self, uuid: str) -> None:
        """Returns a device to service."""
        if not self._current().uncordon(uuid):
            raise Gone("this device is not cordoned", hint="GET /api/leases lists what is")
        self.changed()

    # Helpers.

    def _notify(self, found: LeaseList) -> None:
        known, self._notified = self._notified, _gist(found)
        if known != self._notified:
            self._listeners.notify(found)

    def _read(self, snapshot: Snapshot) -> LeaseList:
        """Reads the list; a book that cannot be read is reported in the list, not raised."""
        row = None
        try:
            book = self._current()
            row = book_row(book)
            view = self._availability.view_of(snapshot, self._kin.of)
            seen = read_listing(self._availability, view, book)
            self._warn_of_overdue(book, seen)
            if self._others is not None:
                also = (*seen.leases.reservations, *self._others(snapshot))
                return replace(seen.leases, reservations=coming(also, time.time()))
        except (AndonError, OSError) as error:
            reason = error.reason if isinstance(error, AndonError) else str(error)
            return LeaseList(snapshot.at, book=row, note=reason)
        return seen.leases

    def _current(self) -> Book:
        """Returns the same object while the same books exist, because it caches what it has
        read."""
        seen, known = self._watched(), self._book
        made = known is not None and known.path in known.paths  # else it may have been just now
        if known is not None and made and seen is not None and seen is self._seen:
            return known
        places.refuse_bad_place(places.book_path(self._env))  # never touch one that may hang
        found = self._open_book(self._env, make=False)
        if self._book is None or self._book.paths != found.paths:
            self._book = found
        self._seen = seen
        return self._book

    def _made(self) -> Book:
        """Returns the book, created if missing; a bad path is not the caller's mistake."""
        try:
            return self._open_book(self._env)
        except Invalid as error:
            raise Unavailable(error.reason, hint=error.hint) from error

    def _warn_of_overdue(self, book: Book, seen: LeaseListing) -> None:
        """Logs a warning about each overdue lease once."""
        found = dict(overdue(book, seen.claims, time.time()))
        for name in found.keys() - self._overdue:
            log.warning("%s", found[name])
        self._overdue = frozenset(found)

    def _row(self, lease: Lease) -> LeaseRow:
        """Returns the lease's row in the list; a lease that is not in it yet uses nothing."""
        uid = lease.owner.uid
        with suppress(AndonError):
            for row in self.listed().leases:
                if (row.id, row.fence, row.uid) == (lease.id, lease.fence, uid):
                    return row
        claim = Claim(lease, LeaseState.HELD, uid, lease.owner.user)
        return lease_row(claim, 0, None, this_requester())

    def _refuse_many(self, book: Book, uid: int) -> None:
        own = [one.lease for one in book.entries() if one.locked and one.uid == uid]
        lent = [lease for lease in own if lease and lease.kind is LeaseKind.NETWORK]
        if len(lent) >= MOST_LENT:
            raise Conflict(
                f"there are already {len(lent)} network leases",
                hint="release some: andon leases",
            )

    def _refuse_hopeless(
        self,
        book: Book,
        request: DeviceRequest,
        wait_seconds: float,
        until: float,
        uid: int | None,
    ) -> None:
        """Refuses, before a holder is started, what can never be met, or not now for a caller
        that does not wait."""
        seen = self._availability.view()
        self._availability.check(seen.snapshot, request)
        try:
            candidates = self._availability.candidates(
                seen, BookContents.of(book), request, None, time.time(), until=until, uid=uid
            )
        except Unavailable as error:
            if not seen.snapshot.devices:
                raise
            # The caller asked for too much; nothing is wrong here.
            raise Conflict(error.reason, error.hint, error.mistakes) from error
        if not candidates.choice.chosen and wait_seconds <= 0:
            raise refusal(candidates, request, None)


def _gist(found: LeaseList) -> object:
    """Returns the fields whose change is worth a notification; usage changes all the time."""
    rows = [(row.id, row.user, row.fence, row.state, row.until) for row in found.leases]
    return rows, found.waiting, found.cordons, found.reservations, found.note


def _check(lease: Lease, name: str, fence: int | None) -> None:
    """Refuses a prefix: a program must send the whole id, because a prefix could match another
    lease a moment later."""
    if lease.id != name:
        raise Gone(f"there is no lease {name[:40]!r}", hint="GET /api/leases lists them")
    check_fence(lease, fence)


def _uid(account: Account | None) -> int | None:
    return None if account is None else account.uid


def _refuse_for_others(account: Account | None, what: str, command: str) -> None:
    if account is None or os.getuid() in (0, account.uid):
        return
    raise Denied(
        f"this server runs as {user_name(os.getuid())} and cannot {what} for {account.name}",
        hint=f"in a terminal: {command}",
    )
