"""Detects that work must end because its lease expired or was released."""

from collections.abc import Callable
from contextlib import suppress

from andon.errors import AndonError
from andon.host.clock import clocks
from andon.leases.book.hold import LeaseHold
from andon.leases.book.lease_book import Book
from andon.leases.book.rejoin import Presence
from andon.leases.book.release_notes import read_note
from andon.leases.refusal import clock
from andon.leases.rules.validity import end_mark
from andon.model.lease import Lease, Reservation
from andon.model.lease_wire import ReleaseNote
from andon.model.naming import range_of
from andon.units import human_seconds

HOUR = 3600.0


class LeaseWatch:
    """Watches a lease that this process holds; `held` is None if another one does."""

    def __init__(self, held: LeaseHold | None, notify: Callable[[str], None]) -> None:
        self._held, self._notify = held, notify
        self._mark: float | None = None  # before its end; passed, and said
        self._presence = None if held is None else Presence(held.hold, notify)
        self.note: ReleaseNote | None = None  # of the user who released it

    def check(self) -> str | None:
        """Returns why the work must end, if it must; called about once a second."""
        if self._held is None or self._presence is None:
            return None
        with suppress(OSError):  # a book that cannot be read does not end the work
            self._presence.check()
        left, name = self._held.left_seconds(), self._held.lease.id
        if left is None or self._held.countdown is None:
            return None
        if left <= 0:
            return f"lease {name} expired"
        mark = end_mark(left, self._held.countdown.end.length_seconds)
        if mark is not None and (self._mark is None or mark < self._mark):
            self._notify(_end_text(self._held.lease, left, mark))
        self._mark = mark
        return None

    def released(self) -> str | None:
        """Returns who released the lease, if anyone did: a signal does not tell which of several
        leases."""
        if self._held is None:
            return None
        self.note = self.note or read_note(self._held.hold)
        return None if self.note is None else self.note.text(self._held.lease.id)


def _end_text(lease: Lease, left_seconds: float, mark: float) -> str:
    """Returns when a lease ends, and what can be done: an extension counts from now."""
    at, hours = clocks()[0], 2 if mark >= HOUR else 1
    ends = clock(at + left_seconds, at)
    text = f"lease {lease.id} ends in {human_seconds(left_seconds)}, at {ends}"
    if (ahead := _reserved(lease, at, at + hours * HOUR)) is None:
        return f"{text}; to extend it: andon lease extend {lease.id} --for {hours}h"
    gpus = range_of([str(one.index) for one in ahead.devices if lease.share_of(one.uuid)])
    return f"{text}; {ahead.user} has reserved GPU {gpus} from {clock(ahead.begins, at)}"


def _reserved(lease: Lease, at: float, until: float) -> Reservation | None:
    """Returns another user's reservation of its devices that begins before then."""
    try:
        found = Book(make=False).reservations()
    except (AndonError, OSError):
        return None
    if not found:
        return None
    from andon.leases.rules.reservations import first_after

    return first_after(found, lease.owner.uid, (s.uuid for s in lease.shares), at, until)
