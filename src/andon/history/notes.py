"""The notes on the history of a machine: a small file, which its server alone writes."""

import logging
import secrets
import threading
from pathlib import Path

from msgspec.structs import replace

from andon.errors import AndonError, Conflict, Gone, Unavailable
from andon.history.rules.notes import (
    MOST_NOTES,
    HistoryNote,
    KnownNotes,
    lines_of,
    notes_of,
    other_versions,
)
from andon.host.files import read_regular, replace_file
from andon.model.device import Snapshot

FILE = "notes.jsonl"
_LARGEST_BYTES = 16 << 20  # above what the most notes with the longest texts take
log = logging.getLogger("andon.notes")


class NoteBook:
    """Notes may be added and removed from any thread; each change is on disk when it returns."""

    def __init__(self, path: Path | None = None) -> None:
        """Without a path they are in memory alone."""
        self._path, self._lock = path, threading.Lock()
        self._known: KnownNotes | None = None if path else KnownNotes()
        self._seen: object = None

    def on(self, device: str | None, since: float, until: float) -> tuple[HistoryNote, ...]:
        with self._lock:
            return self._read().on(device, since, until)

    def find(self, number: str) -> HistoryNote:
        with self._lock:
            found = [note for note in self._read().notes if note.id == number]
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
        """Notes it if a driver has another version than before."""
        if snapshot.versions == self._seen or not snapshot.versions:
            return
        try:
            self._note_versions(snapshot)
        except AndonError as error:  # tried again when the versions are seen the next time
            log.warning("a new version of a driver was not noted: %s", error.reason)
        self._seen = snapshot.versions

    def _note_versions(self, snapshot: Snapshot) -> None:
        at = snapshot.at
        with self._lock:
            known = self._read()
            made = tuple(
                HistoryNote(secrets.token_hex(4), at, at, at, text, driver=True)
                for text in other_versions(known.versions, snapshot.versions)
            )
            versions = {**known.versions, **snapshot.versions}
            if versions != known.versions:
                notes = (*known.notes, *made)[-MOST_NOTES:]
                self._write(KnownNotes(notes, versions))

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
