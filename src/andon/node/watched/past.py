"""The history in a store that this process keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from andon.checks.store import stored_checks
from andon.errors import AndonError, Gone, Invalid
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import HOST, HOST_METRICS, USED, Bucket
from andon.history.rules.throttle_shares import throttle_shares
from andon.model.check import CardResult
from andon.model.device import SAMPLE_VALUES, Device
from andon.ports import Store

if TYPE_CHECKING:  # few commands show notes
    from andon.history.notes import NoteBook
    from andon.history.rules.notes import EndedLease, HistoryNote, KnownNotes

METRICS = (*(name for name in SAMPLE_VALUES if name != "throttle"), *USED)
"""The readings with a minimum, mean and maximum."""


class ServedPast:
    """Fills NodePast; every call may block."""

    def __init__(self, store: Callable[[], Store], book: NoteBook | None = None) -> None:
        """`store` returns the store, or raises the reason if there is none; without a book the
        notes are elsewhere."""
        self.store, self._book = store, book

    @property
    def recorded(self) -> bool:
        try:
            self.store()
        except AndonError:
            return False
        return True

    def devices(self) -> Sequence[Device]:
        return self.store().devices()

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        store, known = self.store(), HOST_METRICS if device == HOST else METRICS
        if metric not in known:
            raise Invalid(f"{metric[:60]!r} is not recorded", hint=f"one of: {', '.join(known)}")
        _check_span(since, until)
        return store.history(device, metric, since, until, points)

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        store = self.store()
        _check_span(since, until)
        return store.usage(device, since, until)

    def checks(self) -> Sequence[CardResult]:
        return stored_checks()

    def throttle_shares(
        self, device: str, since: float, until: float, points: int
    ) -> tuple[list[int], Mapping[str, list[float | None]]]:
        return throttle_shares(self.store(), device, since, until, points)

    @property
    def book(self) -> NoteBook:
        if self._book is None:
            raise Gone("notes are kept on the node itself", hint="there: andon history")
        return self._book

    @property
    def noted(self) -> KnownNotes:
        return self.book.known()

    def notes(self, device: str | None, since: float, until: float) -> Sequence[HistoryNote]:
        return self.noted.on(device, since, until)

    def ended_leases(self, device: str | None, since: float, until: float) -> Sequence[EndedLease]:
        return self.noted.ended(device, since, until)

    def add_note(self, note: HistoryNote) -> HistoryNote:
        if note.since > note.until:
            raise Invalid("the time range is empty", hint="since must not be after until")
        return self.book.add(note)

    def remove_note(self, number: str) -> None:
        self.book.remove(number)


def _check_span(since: float, until: float) -> None:
    if since >= until:
        raise Invalid("the time range is empty", hint="since must be before until")
