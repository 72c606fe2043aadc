"""A held lease that is written again: its file was removed from the book, or has grown long."""

import os
import time
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from andon.errors import AndonError, Conflict, Gone, Invalid
from andon.leases.book import files
from andon.leases.book.files import LARGEST_BYTES
from andon.leases.book.hold import Hold
from andon.leases.book.lease_book import Book
from andon.model import lease_wire
from andon.model.lease import BookEntry, Lease

RETRY_SECONDS = 10.0
QUIET_SECONDS = 60.0  # between two reports of the same lease
SHORTEN_BYTES = 16 * 1024  # about 200 containers; fewer than MOST_CONTAINERS of work_wire


class Presence:
    """Checks that a lease stays in the book; called about once a second."""

    def __init__(self, hold: Hold, report: Callable[[str], None]) -> None:
        self._hold, self._notify = hold, report
        self._next_try = self._quiet_until = 0.0

    def check(self) -> bool:
        """Whether the lease is in the book; if not, it is written again where possible."""
        if self._hold.is_in_book:
            return True
        now = time.monotonic()
        if now < self._next_try:
            return False
        self._next_try = now + RETRY_SECONDS
        with self._hold.writing:
            return self._rejoin(now)

    def _rejoin(self, now: float) -> bool:
        message = "another command may be given the same GPU"
        try:
            lease = lease_of(self._hold)
            message = f"the file of lease {lease.id} was removed from the lease book: {message}"
            rejoin(self._hold, lease)
        except AndonError as error:
            self._report(now, f"{message}; it cannot be written again: {error.reason}")
            return False
        self._report(now, f"{message}; it has been written again")
        return True

    def _report(self, now: float, message: str) -> None:
        if now >= self._quiet_until:
            self._quiet_until = now + QUIET_SECONDS
            self._notify(message)


def rejoin(hold: Hold, lease: Lease) -> None:
    """Writes a lease into the book under a new name; raises Conflict if its devices are taken.

    A command that inherited the first lock keeps it. The new lock belongs to this process.
    """
    book = Book()
    with book.locked():
        _refuse_taken(lease, book.entries())
        hold.replace_with(book.write_lease(lease).hold)


def shorten(hold: Hold) -> None:
    """Writes a lease that has named many containers again, with only the last one: the others
    have ended, and readers take only a limited number. The new lock belongs to this process."""
    if os.fstat(hold.descriptor).st_size < SHORTEN_BYTES:
        return
    book = Book()
    with hold.writing, book.locked():
        lease = lease_of(hold)
        made = book.write_lease(replace(lease, containers=lease.containers[-1:])).hold
        files.remove(hold.folder, hold.name)
        hold.replace_with(made)


def lease_of(hold: Hold) -> Lease:
    """The lease in a held file, with its current end; raises Gone if it can no longer be read."""
    try:
        lease = lease_wire.lease_in_text(os.pread(hold.descriptor, LARGEST_BYTES, 0).decode())
    except (OSError, ValueError, Invalid) as exc:
        raise Gone("the lease's file can no longer be read") from exc
    return lease if lease.until is None else replace(lease, until=hold.stamped)


def note_end(hold: Hold) -> None:
    """Notes which reservations waited for a held lease that ends now."""
    lease = lease_of(hold)
    Book(make=False).note_end(lease.devices, lease.since)


def _refuse_taken(lease: Lease, entries: Iterable[BookEntry]) -> None:
    for entry in entries:
        other = entry.lease
        if not entry.locked or other is None:
            continue
        for share in lease.shares:
            theirs = other.share_of(share.uuid)
            if theirs and None in (theirs.memory_bytes, share.memory_bytes):
                raise Conflict(f"GPU {share.index} is held by lease {other.id} of {entry.user}")
