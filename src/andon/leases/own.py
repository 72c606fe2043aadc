"""This user's own leases in the book of this machine."""

import os
from typing import TYPE_CHECKING

from andon.leases.book.lease_book import Book
from andon.leases.rules.environment import HOLDER_VARIABLE, LEASE_VARIABLE

if TYPE_CHECKING:
    from andon.model.lease import Lease


def own_leases(book: Book | None = None) -> "list[Lease]":
    """Returns this user's leases that are held."""
    entries = (book or Book(make=False)).entries()
    found = (entry for entry in entries if entry.locked and entry.uid == os.getuid())
    return [entry.lease for entry in found if entry.lease is not None]


def lease_around() -> str | None:
    """Returns the lease that this process runs on: a variable names it, or the process that took
    it when this one had started; None if there is none."""
    named, holder = (os.environ.get(name) for name in (LEASE_VARIABLE, HOLDER_VARIABLE))
    if named or not holder:
        return named or None
    return next((one.id for one in own_leases() if str(one.owner.pid) == holder), None)


def gpus_of(lease: "Lease") -> str:
    """Returns `GPU 0, 1`."""
    return f"GPU {', '.join(numbers_of(lease))}"


def numbers_of(lease: "Lease") -> list[str]:
    """Returns the numbers of its devices."""
    return [str(share.index) for share in lease.shares]
