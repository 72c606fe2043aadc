"""Notes on times as lines of JSON, which may be damaged; and what is said of a new driver."""

import json
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from andon.model.codec import Id, Name, Text, Texts, Time, Wrong, read
from andon.model.shapes import to_json

MOST_NOTES = 2000
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


class NoteList(Struct, frozen=True):
    """The notes on a time range, the earliest first."""

    items: tuple[HistoryNote, ...]


class KnownNotes(Struct, frozen=True):
    """All notes, the earliest written first, and the last versions of the drivers."""

    notes: tuple[HistoryNote, ...] = ()
    versions: Texts = {}

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


class _Versions(Struct, frozen=True):
    versions: Texts = {}


def notes_of(lines: Iterable[str]) -> KnownNotes:
    """Reads the lines of a file; one that is damaged is left out."""
    notes, versions = list[HistoryNote](), _Versions().versions
    for line in lines:
        try:
            value = json.loads(line)
            if isinstance(value, dict) and "versions" in value:
                versions = read(_Versions, value).versions
            else:
                notes.append(read(HistoryNote, value))
        except (Wrong, ValueError, RecursionError):
            continue
    return KnownNotes(tuple(notes[-MOST_NOTES:]), versions)


def lines_of(known: KnownNotes) -> list[str]:
    values = [{"versions": dict(known.versions)}, *map(to_json, known.notes)]
    return [json.dumps(one, separators=(",", ":")) for one in values]


def other_versions(before: Mapping[str, str], after: Mapping[str, str]) -> Sequence[str]:
    """Returns a sentence for each driver that has another version than when it was last seen."""
    return [
        f"{name} {before[name]} was replaced by {version}"
        for name, version in sorted(after.items())
        if before.get(name, version) != version
    ]
