"""Detects that work must end because its lease expired or was released."""

from collections.abc import Callable
from contextlib import suppress

from andon.leases.book.hold import LeaseHold
from andon.leases.book.rejoin import Presence
from andon.leases.book.release_notes import read_note
from andon.model.lease_wire import ReleaseNote
from andon.units import human_seconds

WARN_SECONDS = 300.0  # before the lease's end its owner is warned


class LeaseWatch:
    """Watches a lease that this process holds; `held` is None if another one does."""

    def __init__(self, held: LeaseHold | None, notify: Callable[[str], None]) -> None:
        self._held, self._notify, self._warned = held, notify, False
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
        length = self._held.countdown.end.length_seconds
        if left <= min(WARN_SECONDS, length / 4) and not self._warned:
            self._warned = True
            more = f"to extend it: andon lease extend {name} --for 1h"
            self._notify(f"lease {name} ends in {human_seconds(left)}; {more}")
        return None

    def released(self) -> str | None:
        """Returns who released the lease, if anyone did: a signal does not tell which of several
        leases."""
        if self._held is None:
            return None
        self.note = self.note or read_note(self._held.hold)
        return None if self.note is None else self.note.text(self._held.lease.id)
