"""Lends devices to callers over the network: leases that outlive the server and end in time."""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from andon.core.processes.redaction import redact
from andon.core.sharing.launching import environment
from andon.core.sharing.lease_rows import lease_row
from andon.core.sharing.requests import LONGEST_WAIT_SECONDS
from andon.core.sharing.rights import check_fence
from andon.engine.sharing import releaser
from andon.engine.sharing.availability import Availability, BookPages
from andon.engine.sharing.granter import Grant, Granter, Progress, Terms
from andon.engine.sharing.lease_listing import LeaseListing, book_row, listing, sighted
from andon.engine.sharing.overdue import overdue
from andon.engine.sharing.reaper import Reaper
from andon.engine.sharing.refusal import refusal
from andon.errors import AndonError, Conflict, Gone, Invalid, Unavailable
from andon.host.kin import myself, user_name
from andon.leases import places
from andon.leases.book import Book
from andon.leases.holder import Keeper
from andon.model.device import Snapshot
from andon.model.lease_list import LeaseList, LeaseRow
from andon.model.work import Claim, Cordon, DeviceRequest, Lease, LeaseKind, LeaseState, Owner

log = logging.getLogger("andon.lender")

MOST_LENT = 64  # each has a process of its own
HANDOVER_SECONDS = 10.0
RELEASE_SECONDS = 5.0  # a caller does not wait for longer; the holder was asked all the same

Listener = Callable[[LeaseList], None]


@dataclass(frozen=True, slots=True)
class RemoteLease:
    """A lease as its asker gets it."""

    row: LeaseRow
    environment: Mapping[str, str]


class RemoteLeases:
    """Grants, renews and ends leases; everything here may block, and nothing for long.

    `latest` is the last snapshot there is; a grant takes looks of its own through the surveyor.
    """

    def __init__(
        self,
        surveyor: Availability,
        latest: Callable[[], Snapshot],
        env: Mapping[str, str] | None = None,
        longest_wait_seconds: float = LONGEST_WAIT_SECONDS,
        follows: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`follows` says why the book is not followed, where it is not."""
        self._surveyor, self._latest = surveyor, latest
        self._longest_wait_seconds, self._follows = longest_wait_seconds, follows
        self._env = os.environ if env is None else env
        self._lock, self._telling = threading.Lock(), threading.Lock()
        self._book: Book | None = None
        self._listed: tuple[Snapshot, LeaseList] | None = None
        self._listeners: tuple[Listener, ...] = ()
        self._told: object = None
        self._overdue: frozenset[str] = frozenset()
        self._reaper = Reaper(self.changed)

    # What is told.

    def listed(self) -> LeaseList:
        """Every lease; looked up once for all who ask before the next snapshot comes."""
        snapshot = self._latest()
        silent = self._follows()
        if silent is not None:  # a file system that hangs would keep whoever asks it
            return LeaseList(snapshot.at, note=silent)
        with self._lock:
            if self._listed is None or self._listed[0] is not snapshot:
                self._listed = snapshot, self._look(snapshot)
            return self._listed[1]

    def changed(self) -> None:
        """Something in the book may be another: if so, who listens is told the whole list."""
        with self._lock:
            self._listed = None
        with suppress(AndonError), self._telling:  # one at a time: the newest is told last
            if self._listeners:
                self._tell(self.listed())

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear of changes, from whichever thread made them; returns how to leave."""
        self._listeners = (*self._listeners, listener)

        def leave() -> None:
            self._listeners = tuple(one for one in self._listeners if one is not listener)

        return leave

    def close(self) -> None:
        """Leave the leases as they are: a later server finds them in the book."""
        self._reaper.close()

    # What is done.

    def lend(
        self,
        request: DeviceRequest,
        seconds: float,
        wait_seconds: float = 0.0,
        command: str = "",
        waiting: Callable[[], None] = lambda: None,
    ) -> RemoteLease:
        """A lease, as soon as it can be had; what `waiting` raises ends the waiting."""

        def go_on(progress: Progress) -> None:
            waiting()

        book = self._made()
        patience = min(wait_seconds, self._longest_wait_seconds)
        self._refuse_many(book)
        self._refuse_hopeless(book, request, patience)
        keeper = self._keeper()
        try:
            terms = Terms(
                LeaseKind.NETWORK, redact(tuple(command.split(" "))), seconds, _holder(keeper)
            )
            grant = Granter(book, self._surveyor).grant(request, terms, patience, go_on)
            self._hand_over(grant, keeper, waiting)
        finally:
            keeper.dismiss()
        self.changed()
        return RemoteLease(self._row(grant.held.lease), _environment(grant))

    def renew(self, name: str, seconds: float, fence: int | None) -> LeaseRow:
        """Let a lease end so much later from now."""
        lease = releaser.extend(
            self._current(), name, seconds, lambda found: _check(found, name, fence)
        )
        self.changed()
        return self._row(lease)

    def release(self, name: str, fence: int | None) -> Lease:
        """End a lease."""
        lease = releaser.release(
            self._current(),
            name,
            lambda found: _check(found, name, fence),
            RELEASE_SECONDS,
            insist=False,
        )
        self.changed()
        return lease

    def cordon(self, uuid: str, reason: str) -> None:
        """Give a device to nobody."""
        self._made().cordon(Cordon(uuid, time.time(), user_name(os.getuid()), reason))
        self.changed()

    def uncordon(self, uuid: str) -> None:
        """Give it out again."""
        if not self._current().uncordon(uuid):
            raise Gone("this device is not cordoned", hint="GET /api/leases lists what is")
        self.changed()

    # Helpers.

    def _tell(self, found: LeaseList) -> None:
        known, self._told = self._told, _gist(found)
        for listener in self._listeners if known != self._told else ():
            try:
                listener(found)
            except Exception:
                log.exception("a listener failed; the others go on")

    def _look(self, snapshot: Snapshot) -> LeaseList:
        """Fails soft: a book that cannot be read is told of, and is no reason to say nothing."""
        row = None
        try:
            book = self._current()
            row = book_row(book)
            seen = sighted(self._surveyor, self._surveyor.sight(snapshot), book)
            self._warn_of_overdue(book, seen)
        except (AndonError, OSError) as error:
            reason = error.reason if isinstance(error, AndonError) else str(error)
            return LeaseList(snapshot.at, book=row, note=reason)
        return listing(seen, releaser.asker())

    def _current(self) -> Book:
        """The same object while the same books exist: it remembers what it has read."""
        places.refuse_bad_place(places.book_path(self._env))  # one that hangs is never touched
        found = Book(self._env, make=False)
        if self._book is None or self._book.paths != found.paths:
            self._book = found
        return self._book

    def _made(self) -> Book:
        """The book, made if it is not there; that it cannot be one is no mistake of a caller's."""
        try:
            return Book(self._env)
        except Invalid as error:
            raise Unavailable(error.reason, hint=error.hint) from error

    def _warn_of_overdue(self, book: Book, seen: LeaseListing) -> None:
        """Once for each lease."""
        found = dict(overdue(book, seen.claims, time.time()))
        for name in found.keys() - self._overdue:
            log.warning("%s", found[name])
        self._overdue = frozenset(found)

    def _row(self, lease: Lease) -> LeaseRow:
        """As the list has it; of one that is not in it yet, nothing is used."""
        uid = lease.owner.uid
        with suppress(AndonError):
            for row in self.listed().leases:
                if (row.id, row.fence, row.uid) == (lease.id, lease.fence, uid):
                    return row
        claim = Claim(lease, LeaseState.HELD, uid, lease.owner.user)
        return lease_row(claim, 0, None, releaser.asker())

    def _keeper(self) -> Keeper:
        try:
            keeper = Keeper(detached=True)
        except OSError as exc:
            raise Unavailable(
                f"a holder for the lease cannot be started: {exc.strerror}",
                hint="is the machine out of memory or processes?",
            ) from exc
        self._reaper.watch(keeper.process)
        return keeper

    def _hand_over(self, grant: Grant, keeper: Keeper, waiting: Callable[[], None]) -> None:
        """The holder alone has the lock from now on, or nobody has."""
        try:
            keeper.give(grant.held)
            if not keeper.has_taken(HANDOVER_SECONDS):
                raise Unavailable("the lease's holder could not be started", hint="try again")
            waiting()  # whoever asked may have left meanwhile
        except BaseException:
            grant.held.release()
            keeper.recall()
            raise
        grant.held.hold.close()

    def _refuse_many(self, book: Book) -> None:
        uid = os.getuid()
        lent = [
            entry
            for entry in book.entries()
            if entry.locked and entry.uid == uid and _is_network(entry.lease)
        ]
        if len(lent) >= MOST_LENT:
            raise Conflict(
                f"{len(lent)} leases are lent over the network already",
                hint="release some: andon leases",
            )

    def _refuse_hopeless(self, book: Book, request: DeviceRequest, wait_seconds: float) -> None:
        """Before a holder is started: what can never be met, or not now by who does not wait."""
        seen = self._surveyor.see()
        self._surveyor.check(seen.snapshot, request)
        try:
            outlook = self._surveyor.outlook(seen, BookPages.of(book), request, None, time.time())
        except Unavailable as error:
            if not seen.snapshot.devices:
                raise
            # The caller asks for too much, and nothing is wrong here.
            raise Conflict(error.reason, error.hint, error.mistakes) from error
        if not outlook.choice.chosen and wait_seconds <= 0:
            raise refusal(outlook, request, None)


def _gist(found: LeaseList) -> object:
    """What of a list is news when it differs; what is used of a lease always does."""
    rows = [(row.id, row.user, row.fence, row.state, row.until) for row in found.leases]
    return rows, found.waiting, found.cordons, found.note


def _check(lease: Lease, name: str, fence: int | None) -> None:
    """A program says the whole id: the beginning of one could be another's a moment later."""
    if lease.id != name:
        raise Gone(f"there is no lease {name[:40]!r}", hint="GET /api/leases lists them")
    check_fence(lease, fence)


def _is_network(lease: Lease | None) -> bool:
    return lease is not None and lease.kind is LeaseKind.NETWORK


def _holder(keeper: Keeper) -> Owner:
    """It leads a session of its own: what else runs in the server's is not the lease's work."""
    return replace(myself(keeper.pid), session=keeper.pid)


def _environment(grant: Grant) -> Mapping[str, str]:
    chosen = [room.status.device for room in grant.outlook.choice.chosen]
    everyone = [status.device for status in grant.outlook.snapshot.devices]
    return environment(chosen, everyone, grant.held.lease.id)
