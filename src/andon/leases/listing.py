"""Lists the leases: devices, book and queue read together, as every view shows them."""

import os
import time
from collections.abc import Sequence

from msgspec import Struct

from andon.host.users import user_name
from andon.leases.availability import Availability, AvailabilityView, BookContents
from andon.leases.book.lease_book import Book
from andon.leases.own import this_requester
from andon.leases.rules.queue import in_order
from andon.leases.rules.rows import (
    EMPTY,
    cordon_rows,
    lease_rows,
    usage_rows,
    waiting_rows,
)
from andon.model.device import Snapshot
from andon.model.lease import Claim, Reservation
from andon.model.lease_list import BookRow, LeaseList


class LeaseListing(Struct, frozen=True):
    """The list of leases, with details that only this machine has."""

    snapshot: Snapshot
    leases: LeaseList
    claims: tuple[Claim, ...]
    remarks: tuple[str, ...]  # files in the book that are ignored


def read_listing(availability: Availability, view: AvailabilityView, book: Book) -> LeaseListing:
    """Reads the list for this process's user, who may end their own leases."""
    pages, at = BookContents.of(book), time.time()
    capacities, claims = availability.capacities(view, pages), availability.claims(view, pages)
    verdicts = availability.verdicts(view.snapshot, capacities, pages, at)
    usage = book.usage()
    found = LeaseList(
        view.snapshot.at,
        lease_rows(claims, capacities, this_requester()),
        waiting_rows(in_order(pages.waiting, at, pages.usage), usage),
        cordon_rows(pages.cordons, [status.device for status in view.snapshot.devices]),
        book_row(book),
        None if claims else EMPTY,
        verdicts,
        usage_rows(usage, user_name),
        coming(pages.reservations, at),
        os.getuid(),
    )
    return LeaseListing(view.snapshot, found, claims, remarks(book))


def coming(reservations: Sequence[Reservation], at: float) -> tuple[Reservation, ...]:
    """Returns those that are not over, in the order in which they begin."""
    if not reservations:
        return ()
    from andon.leases.rules.reservations import is_over

    found = (one for one in reservations if not is_over(one, at))
    return tuple(sorted(found, key=lambda one: (one.begins, one.id)))


def remarks(book: Book) -> tuple[str, ...]:
    """Returns the files that were ignored when the book was last read, and their owners."""
    unread = (f"{path} is ignored: {reason}" for path, reason in book.unread.items())
    return (*unread, *book.left_out())


def book_row(book: Book) -> BookRow | None:
    """Returns the book for new leases; None before the first lease creates it."""
    try:
        return BookRow(str(book.path), user_name(book.path.stat().st_uid))
    except OSError:
        return None
