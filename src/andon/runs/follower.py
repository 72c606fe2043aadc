"""Follows a record: its latest lines, then only the bytes that were added since."""

import os
from pathlib import Path
from typing import Self

from andon.errors import Unavailable
from andon.model.run.record import RunBegin, RunLine
from andon.runs.files import ENDS_BYTES, PIECE_BYTES, open_record, read_ends
from andon.runs.rules.lines import RecentLines, RecordLines

MOST_BACK_BYTES = 8 * 1024 * 1024
"""How far back rare lines are searched for."""


class RecordFollower:
    """One record, from its latest lines on. A context manager."""

    def __init__(self, path: Path, most: int) -> None:
        """Raises as `read_ends` does if it is not the record of a run."""
        self.begin: RunBegin = read_ends(path, 0).begin
        self._path, self._most = path, most
        self._file = open_record(path)
        self._lines = RecordLines()
        self.offset = 0  # everything before it was read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def recent(self) -> RecentLines:
        """Returns the latest lines, read backwards until there are enough of them."""
        size, back = os.fstat(self._file.fileno()).st_size, ENDS_BYTES
        while True:
            found = self._from(max(0, size - back), size)
            if found.is_full or back >= min(size, MOST_BACK_BYTES):
                found.begin = self.begin
                return found
            back *= 4

    def new(self) -> list[RunLine]:
        """Returns the whole lines that were added; a truncated file is read from its start."""
        try:
            if os.fstat(self._file.fileno()).st_size < self.offset:
                self.offset, self._lines = 0, RecordLines()
            self._file.seek(self.offset)
            data = self._file.read(PIECE_BYTES)
        except OSError as exc:
            raise Unavailable(f"{self._path} cannot be read: {exc.strerror}") from exc
        self.offset += len(data)
        return list(self._lines.feed(data))

    @property
    def is_gone(self) -> bool:
        """Whether another file, or none, now has its name."""
        try:
            return not os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        except OSError:
            return True

    @property
    def modified(self) -> float:
        return os.fstat(self._file.fileno()).st_mtime

    def _from(self, start: int, size: int) -> RecentLines:
        found = RecentLines(self._most)
        self._lines = RecordLines()
        self._file.seek(start)
        data = self._file.read(size - start)
        self.offset = start + len(data)
        found.add_all(self._lines.feed(data[data.find(b"\n") + 1 :] if start else data))
        return found
