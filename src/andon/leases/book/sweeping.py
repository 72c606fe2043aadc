"""Removes what is not held from a book: for root, in any user's book."""

import os
from pathlib import Path

from msgspec import Struct

from andon.leases.book import contents, files
from andon.leases.book.files import BookFile
from andon.leases.book.lease_book import LEASE_SUFFIX
from andon.leases.book.lock_holders import mutex
from andon.leases.book.places import LEASES, TICKETS
from andon.leases.book.tickets import awake_name

TIMEOUT_SECONDS = 1.0


class SweepResult(Struct, frozen=True):
    """How many files were removed, and how many leases are held there."""

    removed: int = 0
    held: int = 0


def clear(path: Path) -> SweepResult:
    """Removes every unlocked file, except leases whose job is still running.

    Directories are opened once and never through a link, so nothing outside the book can be
    reached.
    """
    removed = held = 0
    with mutex([path], TIMEOUT_SECONDS):
        for part in (LEASES, TICKETS):
            folder = files.open_folder(path, part)
            try:
                names = os.listdir(folder)  # noqa: PTH208 - of a descriptor
                found = [
                    one for name in names if (one := files.read_file(folder, name)) is not None
                ]
                locked = {one.name for one in found if one.locked}
                retained = locked | set(map(awake_name, locked)) | _working(found)
                removed += sum(files.remove(folder, name) for name in names if name not in retained)
                held += sum(name.endswith(LEASE_SUFFIX) for name in retained) * (part == LEASES)
            finally:
                os.close(folder)
    return SweepResult(removed, held)


def _working(found: list[BookFile]) -> set[str]:
    """Returns the leases whose holder has exited while their job is still running."""
    leases = [(one, contents.lease_in(one)) for one in found if one.name.endswith(LEASE_SUFFIX)]
    return {entry.file for entry in contents.entries_of(leases) if entry.left}
