"""The leases of this user in this machine's book, and the user as a requester."""

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.host.processes.kin import myself, pid_scope
from andon.leases.book.lease_book import Book
from andon.leases.rules.rights import LeaseRequester
from andon.model.lease import Lease, Owner

if TYPE_CHECKING:
    from andon.leases.book.holder import Account


def this_requester() -> LeaseRequester:
    """Returns this process as a requester, which may end its user's leases."""
    return LeaseRequester(os.getuid(), pid_scope())


def holder_as_owner(pid: int, account: "Account | None") -> Owner:
    """Returns a detached holder as an owner. It leads its own session: other processes in the
    session of whoever started it are not part of the lease."""
    owner = replace(myself(pid), session=pid)
    return owner if account is None else replace(owner, uid=account.uid, user=account.name)


def own_leases(book: Book | None = None) -> list[Lease]:
    """Returns this user's leases that are held."""
    entries = (book or Book(make=False)).entries()
    found = (entry for entry in entries if entry.locked and entry.uid == os.getuid())
    return [entry.lease for entry in found if entry.lease is not None]


def gpus_of(lease: Lease) -> str:
    """Returns the devices of a lease as `GPU 0, 1`."""
    return f"GPU {', '.join(numbers_of(lease))}"


def numbers_of(lease: Lease) -> list[str]:
    """Returns the indices of the devices of a lease, as text."""
    return [str(share.index) for share in lease.shares]
