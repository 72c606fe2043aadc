"""Lists the leases: devices, book and queue read together, as every view shows them."""

import time

from msgspec import Struct

from andon.host.users import user_name
from andon.leases.availability import Availability, AvailabilityView, BookContents
from andon.leases.book.lease_book import Book
from andon.leases.rules.capacity import DeviceCapacity
from andon.leases.rules.queue import in_order
from andon.leases.rules.rights import LeaseRequester
from andon.leases.rules.rows import (
    EMPTY,
    cordon_rows,
    lease_rows,
    usage_rows,
    waiting_rows,
)
from andon.leases.rules.usage import NO_USAGE, RecentUsage
from andon.model.device import Snapshot
from andon.model.lease import Claim, Cordon, Ticket
from andon.model.lease_list import BookRow, LeaseList
from andon.model.verdict import DeviceVerdict


class LeaseListing(Struct, frozen=True):
    """The devices, the book and the queue, read together."""

    snapshot: Snapshot
    capacities: tuple[DeviceCapacity, ...]
    verdicts: tuple[DeviceVerdict, ...]
    claims: tuple[Claim, ...]
    line: tuple[Ticket, ...]
    cordons: tuple[Cordon, ...] = ()
    book: BookRow | None = None
    remarks: tuple[str, ...] = ()  # files in the book that are ignored
    usage: RecentUsage = NO_USAGE


def read_listing(availability: Availability, view: AvailabilityView, book: Book) -> LeaseListing:
    pages, at = BookContents.of(book), time.time()
    capacities = availability.capacities(view, pages)
    return LeaseListing(
        view.snapshot,
        capacities,
        availability.verdicts(view.snapshot, capacities, pages, at),
        availability.claims(view, pages),
        tuple(in_order(pages.waiting, at, pages.usage)),
        pages.cordons,
        book_row(book),
        remarks(book),
        book.usage(),
    )


def remarks(book: Book) -> tuple[str, ...]:
    """Returns the files that were ignored when the book was last read, and their owners."""
    unread = (f"{path} is ignored: {reason}" for path, reason in book.unread.items())
    return (*unread, *map(str, book.left_out()))


def listing(seen: LeaseListing, asker: LeaseRequester) -> LeaseList:
    """Returns the listing for this requester, who may end the leases of their own user."""
    devices = [status.device for status in seen.snapshot.devices]
    return LeaseList(
        seen.snapshot.at,
        lease_rows(seen.claims, seen.capacities, asker),
        waiting_rows(seen.line, seen.usage),
        cordon_rows(seen.cordons, devices),
        seen.book,
        None if seen.claims else EMPTY,
        seen.verdicts,
        usage_rows(seen.usage, user_name),
    )


def book_row(book: Book) -> BookRow | None:
    """The book for new leases; None before the first lease creates it."""
    try:
        return BookRow(str(book.path), user_name(book.path.stat().st_uid))
    except OSError:
        return None
