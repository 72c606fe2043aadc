"""The files of run records: appended to, and read at both ends, never all of a large one."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from andon.errors import Denied, Gone, Invalid, Unavailable
from andon.host.files import NO_FOLLOW, NotRegular, make_private, open_regular
from andon.host.users import user_name
from andon.model.run.record import MOST_LINE_BYTES, RunBegin, RunEnd, RunLine, RunSample
from andon.runs.rules.fold import RunFold
from andon.runs.rules.lines import SAMPLE, RecordLines

CSV = ".csv"
ENDS_BYTES = 128 * 1024
"""How much of each end is read first: begin and facts, the last line and some before it."""
PIECE_BYTES = 1024 * 1024
WHOLE_BYTES = 64 * 1024 * 1024
"""A larger record is not read whole."""
FINISHED_BYTES = 2 * 1024**3
"""The same for a finished record, of which samples are skipped."""


class RecordRead(Struct, frozen=True):
    """The part of a record that was read."""

    path: Path
    begin: RunBegin
    fold: RunFold
    whole: bool  # False: only its first and its last lines, and not every sample
    size_bytes: int
    modified: float
    owner: str | None  # of the file: the user that a record itself names proves nothing
    unreadable: int = 0
    problem: str | None = None  # of the first line that could not be read


class _End(Struct):
    """The lines at one end of a file."""

    lines: list[RunLine]
    reader: RecordLines


def read_ends(path: Path, unfinished_bytes: int = WHOLE_BYTES) -> RecordRead:
    """Reads the beginning, the end and the lines next to them. A record without an end is read
    whole up to this size: what it used so far is in its samples."""
    return read_record(path, unfinished_bytes, finished_bytes=0)


def read_record(
    path: Path, unfinished_bytes: int = WHOLE_BYTES, finished_bytes: int = FINISHED_BYTES
) -> RecordRead:
    """Reads every line up to these sizes, so that events, items and logged values are included. In
    a finished record samples are skipped: its last line has their summary. Of a larger one it reads
    the two ends."""
    with open_record(path) as file:
        head, tail, status = _ends(path, file)
        finished = bool(tail.lines) and isinstance(tail.lines[-1], RunEnd)
        if status.st_size <= (finished_bytes if finished else unfinished_bytes):
            skipped = (SAMPLE,) if finished else ()
            return _whole(path, file, status, RunFold(tallying=not finished), skipped)
        fold = RunFold(tallying=False)
        fold.add_all(head.lines)
        if tail is not head:
            fold.add_all(tail.lines)
        elif not finished:
            fold.latest = _last_sample(file)
        return _result(path, status, fold, tail.reader, whole=False)


def open_record(path: Path) -> BinaryIO:
    """Opens a record; raises Gone, Denied, Invalid or Unavailable, with what to do."""
    try:
        return os.fdopen(open_regular(path, follow=True), "rb")
    except FileNotFoundError as exc:
        hint = "if it was moved: andon runs add DIR, with the folder where it is now"
        raise Gone(f"there is no {path}", hint=hint) from exc
    except NotRegular as exc:
        raise Invalid(f"{path} is not a regular file", hint="name the record of a run") from exc
    except PermissionError as exc:
        raise Denied(f"{path} cannot be read", hint="ask its owner to make it readable") from exc
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not a path"
        raise Unavailable(f"{path}: {reason}") from exc


def delete_record(path: Path) -> None:
    """Deletes the record, and the CSV that `andon run --csv` wrote beside it."""
    try:
        path.unlink(missing_ok=True)
    except PermissionError as exc:
        raise Denied(
            f"{path} cannot be deleted", hint="its folder belongs to another user"
        ) from exc
    except OSError as exc:
        raise Unavailable(f"{path} cannot be deleted: {exc.strerror}") from exc
    with suppress(OSError):
        path.with_suffix(CSV).unlink(missing_ok=True)


def size_of(path: Path) -> int | None:
    """Returns the size of a record with the CSV beside it; None if there is no such record."""
    try:
        size = path.stat().st_size
    except OSError:
        return None
    with suppress(OSError):
        size += path.with_suffix(CSV).stat().st_size
    return size


def lines_in(file: BinaryIO, size: int, reader: RecordLines) -> Iterator[RunLine]:
    """Yields the lines in the first `size` bytes; what is appended meanwhile is ignored."""
    file.seek(0)
    while size > 0 and (data := file.read(min(PIECE_BYTES, size))):
        size -= len(data)
        yield from reader.feed(data)


def _ends(path: Path, file: BinaryIO) -> tuple[_End, _End, os.stat_result]:
    """Reads both ends of a record; the same bytes twice if one read got all of it."""
    try:
        status = os.fstat(file.fileno())
        head, taken = head_of(file)
        if not head.lines or not isinstance(head.lines[0], RunBegin):
            raise _foreign(path, status.st_size, head.reader)
        tail = head if taken >= status.st_size else tail_of(file, status.st_size)
    except OSError as exc:
        raise Unavailable(f"{path} cannot be read: {exc.strerror}") from exc
    return head, tail, status


def head_of(file: BinaryIO) -> tuple[_End, int]:
    """Reads at least the first line; samples are skipped, because a part of them has no sum."""
    reader, lines, taken = RecordLines(), list[RunLine](), 0
    file.seek(0)
    while taken < ENDS_BYTES or (not lines and not reader.unreadable and taken <= MOST_LINE_BYTES):
        data = file.read(ENDS_BYTES)
        if not data:
            break
        reader.skipped = (SAMPLE,) if taken or not data.startswith(SAMPLE) else ()  # no record
        taken += len(data)
        lines += reader.feed(data)
    return _End(lines, reader), taken


def tail_of(file: BinaryIO, size: int) -> _End:
    """Reads at least the last whole line, which holds the series of a finished run."""
    wanted = ENDS_BYTES
    while True:
        file.seek(size - min(wanted, size))
        data = file.read(min(wanted, size))
        if data.count(b"\n") > 1 or wanted > 2 * MOST_LINE_BYTES or wanted >= size:
            break
        wanted *= 4
    for start in (data.rfind(b"\n", 0, -1), data.find(b"\n")):  # its last line, else all of them
        reader = RecordLines()
        lines = list(reader.feed(data[start + 1 :]))
        if lines and isinstance(lines[-1], RunEnd):
            break
    return _End(lines, reader)


def _last_sample(file: BinaryIO) -> RunSample | None:
    """Finds the last sample of a record of which one read got all, and left out the samples."""
    file.seek(0)
    data = file.read(2 * ENDS_BYTES)
    start = data.rfind(b"\n" + SAMPLE, 0, data.rfind(b"\n")) + 1
    found = list(RecordLines().feed(data[start : data.find(b"\n", start) + 1])) if start else []
    return found[0] if found and isinstance(found[0], RunSample) else None


def _whole(
    path: Path,
    file: BinaryIO,
    status: os.stat_result,
    fold: RunFold,
    skipped: tuple[bytes, ...],
) -> RecordRead:
    reader = RecordLines(skipped=skipped)
    try:
        fold.add_all(lines_in(file, status.st_size, reader))
    except OSError as exc:
        raise Unavailable(f"{path} cannot be read: {exc.strerror}") from exc
    return _result(path, status, fold, reader, whole=True)


def _result(
    path: Path, status: os.stat_result, fold: RunFold, reader: RecordLines, whole: bool
) -> RecordRead:
    assert fold.begin is not None  # checked by `_ends`
    return RecordRead(
        path=path,
        begin=fold.begin,
        fold=fold,
        whole=whole,
        size_bytes=status.st_size,
        modified=status.st_mtime,
        owner=user_name(status.st_uid) if hasattr(os, "getuid") else None,
        unreadable=reader.unreadable,
        problem=reader.first_problem,
    )


def _foreign(path: Path, size: int, reader: RecordLines) -> Invalid:
    if not size:
        return Invalid(f"{path} is empty", hint="a run writes its first line when it begins")
    if not reader.unreadable and reader.is_partial:
        return Invalid(f"{path} holds only half a line", hint="the run ended just after it began")
    why = reader.first_problem or "its first line is not the beginning of a run"
    return Invalid(f"{path} is not the record of a run: {why}", hint="andon run writes such files")


class RecordFile:
    """Appends lines to a record in the state folder, new or begun by another process. Several
    threads write."""

    def __init__(self, path: Path) -> None:
        self.path, self.dropped = path, 0
        self._descriptor, self._lock = -1, threading.Lock()
        self._torn = False  # it ends in half a line
        with suppress(OSError):
            make_private(path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | NO_FOLLOW
            self._descriptor = os.open(path, flags, 0o600)
            size = os.fstat(self._descriptor).st_size
            self._torn = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"

    @property
    def writes(self) -> bool:
        return self._descriptor >= 0

    def put(self, line: str) -> None:
        """Appends a line; starts a new one if a kill or a full disk left half a line."""
        with self._lock:
            data = ("\n" + line if self._torn else line).encode(errors="replace")
            try:
                written = os.write(self._descriptor, data)
            except OSError:
                self.dropped += 1
                return
            self._torn = data[:written][-1:] != b"\n"
            self.dropped += written < len(data)

    def close(self) -> None:
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = -1
