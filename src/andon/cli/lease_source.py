"""Leases for commands: a server's, and this user's own."""

import os
from typing import TYPE_CHECKING

from andon.errors import Invalid
from andon.model.lease_list import LeaseList, list_from_json

if TYPE_CHECKING:
    from andon.leases.book.lease_book import Book
    from andon.model.lease import Lease
    from andon.node.remote import Server


def leases_of_server(server: "Server") -> LeaseList:
    """A server's leases."""
    try:
        return list_from_json(server.get("/api/leases"))
    except Invalid as exc:
        raise server.of_another_version(exc.reason) from exc


def gpus_of(lease: "Lease") -> str:
    """Returns `GPU 0, 1`."""
    return f"GPU {', '.join(numbers_of(lease))}"


def mine_now() -> "list[Lease]":
    """Returns this user's leases that are held, by the book of this machine."""
    from andon.leases.book.lease_book import Book

    return own_leases(Book(make=False))


def own_leases(book: "Book") -> "list[Lease]":
    """This user's leases that are held."""
    found = (entry for entry in book.entries() if entry.locked and entry.uid == os.getuid())
    return [entry.lease for entry in found if entry.lease is not None]


def numbers_of(lease: "Lease") -> list[str]:
    """Returns the numbers of its devices."""
    return [str(share.index) for share in lease.shares]
