"""Reads the records of runs again and again: the ends of a finished one, else only new bytes."""

import os
import threading
import time
from collections.abc import Callable
from typing import BinaryIO

from andon.errors import AndonError, Denied, Gone, Unavailable
from andon.host.files import NotRegular, open_regular
from andon.model.run.record import (
    RunAlert,
    RunBegin,
    RunEnd,
    RunEvent,
    RunItem,
    RunLine,
)
from andon.runs.files import PIECE_BYTES, head_of, lines_in, tail_of
from andon.runs.rules.fold import RunFold
from andon.runs.rules.lines import LOGGED, SAMPLE, RecordLines

MOST_SCANNED_BYTES = 512 * 1024 * 1024
MOST_RECORDS = 16
MOST_NEW_LINES = 300  # lines in one live event
BUDGET_SECONDS = 0.3
"""How long one request reads; the answer says how far it got, and the next continues there."""

MarkLine = RunEvent | RunItem | RunAlert


class RunRecord:
    """One record that a client has open. For one thread at a time; the caller takes `lock`."""

    def __init__(self, path: str, run: str) -> None:
        self.path, self.run = path, run
        self.lock = threading.Lock()
        self._inode: tuple[int, int] | None = None
        self._collects = False
        self._start()

    def _start(self) -> None:
        self.fold, self.lines = RunFold(), RecordLines()
        self.read_bytes = self.of_bytes = 0
        self._new_lines: list[RunLine] = []
        self._taken_bytes = 0

    @property
    def begin(self) -> RunBegin:
        if self.fold.begin is None:
            raise Gone(f"{self.path} holds no run", hint="andon runs lists those there are")
        return self.fold.begin

    def refresh(
        self,
        budget_seconds: float = BUDGET_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        collecting: bool = False,
    ) -> None:
        """Reads new lines, as far as the budget goes; `collecting` begins to keep the lines."""
        if collecting and not self._collects:
            self._collects, self._taken_bytes = True, self.read_bytes
        with opened(self.path, self.run) as file:
            self._check_same(file)
            if self.read_bytes or not self._take_ends(file):
                self._take_new(file, clock() + budget_seconds, clock)

    def take_new_lines(self) -> tuple[int, list[RunLine]]:
        """Returns the lines since the last call, and the byte at which they begin.

        If there are too many, none are returned: a client that continues from an earlier byte
        has to start again.
        """
        news, before = self._new_lines, self._taken_bytes
        self._new_lines, self._taken_bytes = [], self.read_bytes
        if len(news) > MOST_NEW_LINES:
            return self.read_bytes, []
        return before, news

    def _check_same(self, file: BinaryIO) -> None:
        """Starts again if the file is another or a shorter one: a record is only appended to."""
        status = os.fstat(file.fileno())
        inode = (status.st_dev, status.st_ino)
        if self._inode not in (None, inode) or status.st_size < self.read_bytes:
            self._start()
        self._inode, self.of_bytes = inode, status.st_size

    def _take_ends(self, file: BinaryIO) -> bool:
        """Reads both ends; returns whether the record is finished and nothing else is needed."""
        end = next(reversed(tail_of(file, self.of_bytes).lines), None)
        if not isinstance(end, RunEnd) or (end.series is None and end.samples):
            return False
        if end.last_values and not end.curves:  # of an earlier andon
            return False
        self.fold = RunFold(tallying=False)
        self.fold.add_all(head_of(file)[0].lines)
        self.fold.add(end)
        self.read_bytes = self.of_bytes
        return True

    def _take_new(self, file: BinaryIO, until: float, clock: Callable[[], float]) -> None:
        file.seek(self.read_bytes)
        while data := file.read(min(PIECE_BYTES, self.of_bytes - self.read_bytes)):
            self.read_bytes += len(data)
            for line in self.lines.feed(data):
                self.fold.add(line)
                if self._collects and len(self._new_lines) <= MOST_NEW_LINES:
                    self._new_lines.append(line)
            if clock() >= until:
                break


class RunRecords:
    """The records that were opened last; a finished one is small and is read only once."""

    def __init__(self, most: int = MOST_RECORDS) -> None:
        self._most, self._records = most, dict[str, RunRecord]()
        self._lock = threading.Lock()

    def of(self, run: str, path: str) -> RunRecord:
        with self._lock:
            found = self._records.pop(run, None)
            if found is None or found.path != path:
                found = RunRecord(path, run)
            self._records[run] = found
            while len(self._records) > self._most:
                del self._records[next(iter(self._records))]
            return found


def opened(path: str, run: str) -> BinaryIO:
    """Opens the record if it is of this run: its folder may be another user's.

    Otherwise a user who can replace the file could have the server read any file of its user.
    """
    try:
        file = os.fdopen(open_regular(path), "rb")
    except FileNotFoundError as exc:
        raise Gone("its record was removed", hint=f"andon runs rm {run} forgets it") from exc
    except NotRegular as exc:
        raise Gone("its record is not a regular file", hint=f"andon runs rm {run}") from exc
    except PermissionError as exc:
        raise Denied("its record cannot be read", hint="ask its owner to make it readable") from exc
    except OSError as exc:
        raise Unavailable(f"its record cannot be read: {exc.strerror}", hint="try again") from exc
    try:
        begin = next(iter(head_of(file)[0].lines), None)
        if not isinstance(begin, RunBegin) or begin.id != run:
            raise Gone("its record holds another run now", hint=f"andon runs rm {run}")
        file.seek(0)
    except OSError as exc:
        file.close()
        raise Unavailable(f"its record cannot be read: {exc.strerror}", hint="try again") from exc
    except AndonError:
        file.close()
        raise
    return file


def mark_lines(path: str, run: str) -> tuple[list[MarkLine], bool]:
    """Returns events, items and alerts, and whether the whole record was searched."""
    reader = RecordLines(skipped=(SAMPLE, LOGGED))
    with opened(path, run) as file:
        lines = lines_in(file, MOST_SCANNED_BYTES, reader)
        found = [line for line in lines if isinstance(line, MarkLine)]
        return found, file.tell() < MOST_SCANNED_BYTES
