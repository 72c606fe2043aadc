"""Takes over a lease whose supervisor was killed while its container keeps running.

The container is found by its label. The new lease has the same id, devices and end; it is written
before the old file is removed, so the devices are withheld throughout.
"""

import time
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import Conflict, Gone, Invalid
from andon.host.processes.kin import myself
from andon.leases.book.hold import LeaseHold
from andon.leases.book.lease_book import Book
from andon.model.execution import CreatedWork
from andon.model.lease import BookEntry, Lease, Owner
from andon.ports import ContainerEngine


class AdoptedWork(Struct, frozen=True):
    """A lease that was taken over, and its container."""

    held: LeaseHold
    work: CreatedWork
    engine: ContainerEngine
    since: float  # before it was held again: what it has written since then was read by no one


def adopt(book: Book, engine: ContainerEngine, name: str, uid: int) -> AdoptedWork:
    """Holds an orphaned lease of this user again; raises Gone if there is none, or no container."""
    found, _ = _orphan(book.entries(), name, uid)
    work = next((one for one in engine.find(found.id) if engine.ended(one) is None), None)
    if work is None:
        raise Gone(
            f"no container of lease {found.id} is running", hint="its devices have been released"
        )
    since = time.time()
    return AdoptedWork(hold_again(book, found.id, uid, myself()), work, engine, since)


def hold_again(book: Book, name: str, uid: int, owner: Owner) -> LeaseHold:
    """Holds an orphaned lease of this user under the same id, for another holder."""
    with book.locked():
        lease, entry = _orphan(book.entries(), name, uid)
        held = book.write_lease(replace(lease, owner=owner, work=None))
        book.sweep([entry])
    return held


def _orphan(entries: Sequence[BookEntry], name: str, uid: int) -> tuple[Lease, BookEntry]:
    """Returns the one unlocked lease of this user with this prefix and a container."""
    if not name:
        raise Invalid("which lease?", hint="andon leases lists them")
    mine = [
        (entry.lease, entry)
        for entry in entries
        if entry.lease is not None and entry.lease.id.startswith(name) and entry.uid == uid
    ]
    if any(entry.locked for _, entry in mine):
        raise Conflict(f"lease {mine[0][0].id} is held", hint="it has not lost its holder")
    orphans = [(lease, entry) for lease, entry in mine if lease.containers]
    if not orphans:
        raise Gone(
            f"you have no orphaned lease {name[:40]!r} with a container",
            hint="andon leases lists them",
        )
    if len({lease.id for lease, _ in orphans}) > 1:
        raise Invalid(f"{len(orphans)} leases begin with {name[:40]!r}", hint="give more of the id")
    return orphans[0]
