"""Leases past their end that are still held: their holder is stopped or not responding."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from andon.errors import AndonError
from andon.host.processes.handles import is_stopped
from andon.leases.book.lease_book import Book
from andon.leases.book.lock_holders import open_holder
from andon.leases.book.places import LEASES
from andon.model.lease import Claim, Lease, LeaseState
from andon.units import human_seconds

LATE_SECONDS = 15.0  # a running holder releases a lease within five


def overdue(book: Book, claims: Iterable[Claim], at: float) -> Iterator[tuple[str, str]]:
    """The id of each such lease, and a sentence about it."""
    for claim in claims:
        lease = claim.lease
        if lease is None or lease.until is None or claim.state is not LeaseState.HELD:
            continue
        late = at - lease.until
        if late > LATE_SECONDS:
            since = f"lease {lease.id} expired {human_seconds(late)} ago but is still held"
            yield lease.id, f"{since}: {_reason(book, claim, lease)}"


def _reason(book: Book, claim: Claim, lease: Lease) -> str:
    """A process is named only where it is verified to be the holder."""
    pid = lease.owner.pid
    if not any(_is_verified(claim, lease, path / LEASES / claim.file) for path in book.paths):
        return f"ask {claim.user}, or root"
    if is_stopped(pid):
        return f"its holder is stopped; resume it: kill -CONT {pid}"
    return f"its holder (pid {pid}) is not responding"


def _is_verified(claim: Claim, lease: Lease, file: Path) -> bool:
    try:
        open_holder(lease, file, claim.uid).close()
    except AndonError:
        return False
    return True
