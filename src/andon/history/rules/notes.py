"""Notes on times, and leases that ended, as lines of JSON, which may be damaged; and what is said
of a new driver."""

import json
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from andon.model.codec import Id, Name, Names, Text, Texts, Time, Wrong, read
from andon.model.shapes import to_json

MOST_NOTES, MOST_LEASES = 2000, 500
MOST_REPORTED = 50
"""The latest notes, and as many leases: what a node's reports have."""
LONGEST_NOTE = 500


class HistoryNote(Struct, frozen=True):
    """A text on a time range of a device, or of the whole node. A change of a driver's version is
    noted by the server, which has no name."""

    id: Id
    at: Time  # when it was written
    since: Time
    until: Time
    text: Text
    device: Name | None = None  # None for the node
    by: Name = ""
    driver: bool = False


class EndedLease(Struct, frozen=True):
    """A lease whose end the server saw."""

    holder: Name
    devices: Names
    since: Time
    ended: Time


class NoteList(Struct, frozen=True):
    """The notes on a time range, the earliest first, and the leases that ended in it."""

    items: tuple[HistoryNote, ...]
    leases: tuple[EndedLease, ...] = ()


class KnownNotes(Struct, frozen=True):
    """All notes and leases that ended, the earliest first, and the last versions of the drivers."""

    notes: tuple[HistoryNote, ...] = ()
    versions: Texts = {}
    leases: tuple[EndedLease, ...] = ()

    def on(self, device: str | None, since: float, until: float) -> tuple[HistoryNote, ...]:
        """Returns those that touch a range of a device or of the node; None means all devices."""
        found = (
            note
            for note in self.notes
            if (device is None or note.device in (None, device))
            and note.since <= until
            and note.until >= since
        )
        return tuple(sorted(found, key=lambda note: (note.since, note.at, note.id)))

    def ended(self, device: str | None, since: float, until: float) -> tuple[EndedLease, ...]:
        """Returns the leases of a device, or of any, that ended in a range."""
        return tuple(
            lease
            for lease in self.leases
            if (device is None or device in lease.devices) and since <= lease.ended <= until
        )

    def latest(self, most: int = MOST_REPORTED) -> "KnownNotes":
        return KnownNotes(self.notes[-most:], leases=self.leases[-most:])


class _Kept(Struct, frozen=True):
    versions: Texts = {}
    leases: tuple[EndedLease, ...] = ()


def notes_of(lines: Iterable[str]) -> KnownNotes:
    """Reads the lines of a file; one that is damaged is left out."""
    notes, kept = list[HistoryNote](), _Kept()
    for line in lines:
        try:
            value = json.loads(line)
            if isinstance(value, dict) and "versions" in value:
                kept = read(_Kept, value)
            else:
                notes.append(read(HistoryNote, value))
        except (Wrong, ValueError, RecursionError):
            continue
    return KnownNotes(tuple(notes[-MOST_NOTES:]), kept.versions, kept.leases[-MOST_LEASES:])


def lines_of(known: KnownNotes) -> list[str]:
    values = [to_json(_Kept(known.versions, known.leases)), *map(to_json, known.notes)]
    return [json.dumps(one, separators=(",", ":")) for one in values]


def other_versions(before: Mapping[str, str], after: Mapping[str, str]) -> Sequence[str]:
    """Returns a sentence for each driver that has another version than when it was last seen."""
    return [
        f"{name} {before[name]} was replaced by {version}"
        for name, version in sorted(after.items())
        if before.get(name, version) != version
    ]
