"""Who ended another process's lease, and why: what its holder reads when it is asked to stop."""

from msgspec import Struct

from andon.model.codec import NAME, Name, Text, read_schema
from andon.model.wire import Json

SCHEMA = "andon.release/1"
MOST_NOTE = 200  # characters


class ReleaseNote(Struct, frozen=True):
    """One release; an empty note gives no reason."""

    by: Name
    note: Text = ""

    def words(self, lease: str) -> str:
        """`root released lease k7qm2: maintenance at noon`."""
        return f"{self.by} released lease {lease}" + (f": {self.note}" if self.note else "")


def release_note(by: str, note: str = "") -> ReleaseNote:
    """Bounded, in one line, and without anything that moves a cursor: it is for a terminal."""
    return ReleaseNote(_plain(by, NAME), _plain(note, MOST_NOTE))


def release_to_json(found: ReleaseNote) -> Json:
    return {"schema": SCHEMA, "by": found.by, "note": found.note}


def release_from_json(value: Json) -> ReleaseNote:
    """Read what another process wrote; raises Invalid for anything else."""
    found = read_schema(ReleaseNote, value, SCHEMA)
    return release_note(found.by, found.note)


def _plain(text: str, longest: int) -> str:
    kept = "".join(c if c.isprintable() else " " for c in text[: 4 * longest])
    return " ".join(kept.split())[:longest]
