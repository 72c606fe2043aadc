"""The notes on the history of a machine, and the leases that ended: a small file, which its server
alone writes."""

import logging
import secrets
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec.structs import replace

from andon.errors import AndonError, Conflict, Gone, Unavailable
from andon.history.rules.notes import (
    MOST_LEASES,
    MOST_NOTES,
    EndedLease,
    HistoryNote,
    KnownNotes,
    lines_of,
    notes_of,
    other_versions,
)
from andon.host.files import read_regular, replace_file
from andon.leases.rules.occupants import BookView
from andon.model.device import Snapshot
from andon.model.lease import Claim
from andon.units import plain

FILE = "notes.jsonl"
LONGEST_HOLDER = 200
_LARGEST_BYTES = 16 << 20  # above what the most notes with the longest texts take
log = logging.getLogger("andon.notes")


class NoteBook:
    """Notes may be added and removed from any thread; each change is on disk when it returns."""

    def __init__(
        self, path: Path | None = None, page: Callable[[], BookView | None] = lambda: None
    ) -> None:
        """Without a path they are in memory alone. `page` returns what the lease book has, or None
        while that is unknown."""
        self._path, self._lock, self._page = path, threading.Lock(), page
        self._known: KnownNotes | None = None if path else KnownNotes()
        self._seen: object = None
        self._held = dict[str, Claim]()

    def known(self) -> KnownNotes:
        with self._lock:
            return self._read()

    def find(self, number: str) -> HistoryNote:
        found = [note for note in self.known().notes if note.id == number]
        if not found:
            raise Gone(f"there is no note {number[:60]!r}", hint="andon history lists them")
        return found[0]

    def add(self, note: HistoryNote) -> HistoryNote:
        with self._lock:
            known = self._read()
            if len(known.notes) >= MOST_NOTES:
                hint = "remove some: andon history --remove-note ID"
                raise Conflict(f"there are {MOST_NOTES} notes already", hint=hint)
            added = replace(note, id=secrets.token_hex(4))
            self._write(replace(known, notes=(*known.notes, added)))
        return added

    def remove(self, number: str) -> None:
        self.find(number)
        with self._lock:
            known = self._read()
            left = tuple(note for note in known.notes if note.id != number)
            self._write(replace(known, notes=left))

    def see(self, snapshot: Snapshot) -> None:
        """Notes it if a driver has another version than before, and if a lease has ended."""
        ended = self._ended(snapshot)
        if not ended and (snapshot.versions == self._seen or not snapshot.versions):
            return
        try:
            self._note(snapshot, ended)
        except AndonError as error:  # of a driver, when its version is seen the next time
            log.warning("a new driver, or the end of a lease, was not noted: %s", error.reason)
        self._seen = snapshot.versions

    def _ended(self, snapshot: Snapshot) -> list[EndedLease]:
        """Returns the leases that have ended since the last snapshot."""
        page = self._page()
        if page is None:
            return []
        before, self._held = self._held, {
            one.lease.id: one
            for one in page.claims
            if one.lease is not None and one.lease.simulated == snapshot.simulated
        }  # fmt: skip
        over = [one for key, one in before.items() if key not in self._held]
        return [
            EndedLease(
                plain(one.holder, LONGEST_HOLDER),
                tuple(share.uuid for share in one.lease.shares),
                min(max(0.0, one.lease.since), snapshot.at),
                snapshot.at,
            )
            for one in over
            if one.lease is not None
        ]

    def _note(self, snapshot: Snapshot, ended: Iterable[EndedLease]) -> None:
        at = snapshot.at
        with self._lock:
            known = self._read()
            made = tuple(
                HistoryNote(secrets.token_hex(4), at, at, at, text, driver=True)
                for text in other_versions(known.versions, snapshot.versions)
            )
            versions = {**known.versions, **snapshot.versions}
            leases = (*known.leases, *ended)[-MOST_LEASES:]
            if (versions, leases) != (known.versions, known.leases):
                self._write(KnownNotes((*known.notes, *made)[-MOST_NOTES:], versions, leases))

    def _read(self) -> KnownNotes:
        if self._known is None and self._path is not None:
            try:
                content = read_regular(self._path, _LARGEST_BYTES, own=True)
            except FileNotFoundError:
                content = b""
            except OSError as exc:
                reason = f"{self._path} cannot be read: {exc.strerror}"
                raise Unavailable(reason, hint="move it away: another one is begun") from exc
            self._known = notes_of(content.decode("utf-8", "replace").splitlines())
        return self._known or KnownNotes()

    def _write(self, known: KnownNotes) -> None:
        if self._path is not None:
            try:
                replace_file(self._path, "".join(f"{one}\n" for one in lines_of(known)).encode())
            except OSError as exc:
                reason = f"{self._path} cannot be written: {exc.strerror}"
                raise Unavailable(reason, hint="make room or writable, and try again") from exc
        self._known = known
