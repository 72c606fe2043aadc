"""Gathers the contents of a lease book, without trusting or changing them."""

import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from andon.doctor.rules.facts import Contents, StrayFiles, StrayReason
from andon.errors import Invalid
from andon.host.files import FOLDER, NO_FOLLOW, NO_WAIT, is_locked
from andon.model import lease_wire, wire

MOST_FILES = 16_384  # of one part; twice what a lease command would read
MOST_BYTES = 8 << 20  # of one book's content; the rest is counted but not read
LARGEST_BYTES = 64 * 1024
OLD_SECONDS = 600.0  # a killed process leaves its file; the user's next command removes it
MOST_USERS = 4
_OPEN = os.O_RDONLY | NO_FOLLOW | NO_WAIT
_FOLDER = os.O_RDONLY | FOLDER | NO_FOLLOW
_PARTS: Mapping[str, Callable[[wire.Json], object]] = {
    "leases": lease_wire.lease_from_json,
    "tickets": lease_wire.ticket_from_json,
    "cordons": lease_wire.cordon_from_json,
}


def read_contents(
    book: Path,
    users: Mapping[int, str],
    now: Callable[[], float] = time.time,
    most_files: int = MOST_FILES,
    most_bytes: int = MOST_BYTES,
) -> Contents:
    """Counts files by user and kind; their names, which users choose, are left out."""
    examined = _Examination(now(), most_files, most_bytes)
    for part, parse in _PARTS.items():
        examined.part(book / part, parse, lockable=part != "cordons")
    strays = tuple(
        StrayFiles(odd, users.get(uid, str(uid)), uid, count)
        for (odd, uid), count in sorted(examined.odd.items())
    )
    most = examined.files.most_common(MOST_USERS)
    counts = tuple((users.get(uid, str(uid)), uid, count) for uid, count in most)
    return Contents(strays, counts, examined.complete, examined.closed)


class _Examination:
    """Counts the entries of one book, reading a limited number of bytes."""

    def __init__(self, at: float, most_files: int, most_bytes: int) -> None:
        self.odd: Counter[tuple[StrayReason, int]] = Counter()
        self.files: Counter[int] = Counter()
        self.complete, self.closed = True, False
        self._at, self._most_files, self._bytes = at, most_files, most_bytes

    def part(self, path: Path, parse: Callable[[wire.Json], object], lockable: bool) -> None:
        try:
            folder = os.open(path, _FOLDER)
        except PermissionError:
            self.closed = True
            return
        except OSError:
            return  # a missing or linked part is reported elsewhere
        try:
            for name in self._names(folder):
                self._file(folder, name, parse, lockable)
        finally:
            os.close(folder)

    def _names(self, folder: int) -> Iterator[str]:
        try:
            with os.scandir(folder) as entries:
                for number, entry in enumerate(entries):
                    if number >= self._most_files:
                        self.complete = False
                        return
                    yield entry.name
        except PermissionError:
            self.closed = True

    def _file(
        self, folder: int, name: str, parse: Callable[[wire.Json], object], lockable: bool
    ) -> None:
        try:
            seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return
        self.files[seen.st_uid] += 1
        odd = self._judged(folder, name, seen, parse, lockable)
        if odd is not None:
            self.odd[odd, seen.st_uid] += 1

    def _judged(
        self,
        folder: int,
        name: str,
        seen: os.stat_result,
        parse: Callable[[wire.Json], object],
        lockable: bool,
    ) -> StrayReason | None:
        if not stat.S_ISREG(seen.st_mode):
            return StrayReason.NOT_A_FILE
        old = self._at - seen.st_ctime > OLD_SECONDS
        try:
            descriptor = os.open(name, _OPEN, dir_fd=folder)
        except PermissionError:
            return StrayReason.CLOSED
        except OSError:
            return None  # it was removed or replaced meanwhile
        try:
            if name.startswith("."):  # a draft: still being written
                return StrayReason.UNLOCKED if old and not is_locked(descriptor) else None
            if not self._is_entry(descriptor, seen.st_size, parse):
                return StrayReason.MALFORMED
            return StrayReason.UNLOCKED if lockable and old and not is_locked(descriptor) else None
        except OSError:
            return None
        finally:
            os.close(descriptor)

    def _is_entry(self, descriptor: int, size: int, parse: Callable[[wire.Json], object]) -> bool:
        """Whether its first line is a valid entry; files beyond the budget are assumed valid."""
        if size > LARGEST_BYTES:
            return False
        if self._bytes < size:
            return True
        content = os.read(descriptor, LARGEST_BYTES)
        self._bytes -= len(content)
        try:
            parse(wire.loads(content.partition(b"\n")[0], wire.NOTE, any_text=True))
        except Invalid:
            return False
        return True
