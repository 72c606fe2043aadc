"""Notes in the lease book beside a lease: who released it, and why.

The process that releases a lease writes one before it signals the holder. Every user can write into
the book, so a holder believes only root and its own user.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from andon.errors import AndonError, Invalid
from andon.leases.book import files
from andon.leases.book.hold import Hold
from andon.model import wire
from andon.model.codec import document
from andon.model.lease_wire import ReleaseNote, release_from_json

NOTE_SUFFIX = ".note"
MOST_READ = 16  # notes of one lease: a stranger's must not take forever


@contextmanager
def left_note(folder: Path, file: str, note: ReleaseNote) -> Iterator[None]:
    """Leaves a note for a lease's holder while it is asked to end; a full disk loses it."""
    place = folder / f"{_stem(file)}.{os.urandom(6).hex()}{NOTE_SUFFIX}"
    try:
        with suppress(OSError):
            _write(place, wire.dumps(document(note)))
        yield
    finally:
        with suppress(OSError):
            place.unlink(missing_ok=True)


def read_note(hold: Hold) -> ReleaseNote | None:
    """Returns the newest note for a held lease; None if no user who may release it left one.

    Removes the notes, as far as this user may: a process that left one from the lease's own shell
    is ended with the lease, and cannot remove it.
    """
    begins, found = f"{_stem(hold.name)}.", []
    try:
        listed = os.listdir(hold.folder)  # noqa: PTH208 - of a descriptor
        names = [n for n in listed if n.startswith(begins) and files.is_named(n, NOTE_SUFFIX)]
        for name in names[:MOST_READ]:
            read = files.read_file(hold.folder, name)
            if read is not None and read.uid in (0, os.geteuid()) and read.text is not None:
                with suppress(Invalid):
                    found.append(
                        (read.changed, release_from_json(wire.loads(read.text, wire.NOTE)))
                    )
                    files.remove(hold.folder, name)
    except (AndonError, OSError):
        return None
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _stem(file: str) -> str:
    return file.rpartition(".")[0] or file


def _write(place: Path, text: str) -> None:
    descriptor = os.open(place, files.MAKE, 0o600)
    try:
        os.fchmod(descriptor, 0o644)  # regardless of the umask: the holder reads it
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
