"""A queue on disk for items to be sent to another machine: it survives a kill, and is bounded."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from andon.errors import Unavailable
from andon.host.files import make_private, open_regular, read_regular
from andon.host.rules.spooling import (
    HEADER,
    SpoolFile,
    SpoolItem,
    SpoolLimits,
    packed,
    packed_marks,
    surplus,
    unpacked,
    unpacked_marks,
)

MARKS_FILE = "marks"
SUFFIX = ".spool"
BIG_FILE_BYTES = 1 << 27


class SpoolContents(Struct, frozen=True):
    """The contents of a queue, as another process sees them."""

    waiting: int = 0
    oldest: float | None = None
    """When the oldest of these was added."""
    size_bytes: int = 0
    dropped: int = 0
    acknowledged: float | None = None
    """When something was last acknowledged, or the queue opened; None if it never was."""


def read_spool(folder: Path) -> SpoolContents:
    """Reads a queue that another process uses."""
    try:
        changed = (folder / MARKS_FILE).stat().st_mtime
        acknowledged, dropped = unpacked_marks(read_regular(folder / MARKS_FILE, 64))
        files = sorted(folder.glob(f"{'[0-9]' * 20}{SUFFIX}"))
        size = sum(file.stat().st_size for file in files)
        ends = [(file, read_regular(file, BIG_FILE_BYTES)) for file in {*files[:1], *files[-1:]}]
    except OSError:
        return SpoolContents()
    items = [item for file, content in ends for item in unpacked(content, int(file.stem))]
    left = sorted(item[:2] for item in items if item.sequence > acknowledged)
    if not left:
        return SpoolContents(dropped=dropped, acknowledged=changed if acknowledged else None)
    (_, oldest), (last, _) = left[0], left[-1]
    last_time = changed if acknowledged else None
    return SpoolContents(last - acknowledged, oldest, size, dropped, last_time)


class Spool:
    """Stores items in files of one folder, for one process; calls may come from any thread.

    An item for which `put` has returned is read again after a kill, until `done` has returned for
    it. Nothing is forced to the disk, so a power failure may lose the last seconds.
    """

    def __init__(
        self,
        folder: Path,
        limits: SpoolLimits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Raises Unavailable if the folder cannot be used."""
        self._folder, self._limits, self._clock = folder, limits or SpoolLimits(), clock
        self._lock = threading.Lock()
        self._files: list[SpoolFile] = []
        self._open: tuple[int, int] | None = None  # the first sequence of the last file, and its fd
        try:
            make_private(folder)
            self._marks = open_regular(folder / MARKS_FILE, os.O_RDWR | os.O_CREAT)
            self._acknowledged, self._dropped = unpacked_marks(os.pread(self._marks, 64, 0))
            self._find()
            self._save()  # once, so that a disk that is full later has its place
        except OSError as exc:
            raise self._trouble(exc) from exc

    @property
    def dropped(self) -> int:
        """How many were dropped without having been sent, since the folder was made."""
        return self._dropped

    @property
    def size_bytes(self) -> int:
        with self._lock:
            return sum(one.size for one in self._files)

    def __len__(self) -> int:
        """Returns how many items wait."""
        with self._lock:
            return max(0, self._next - 1 - self._acknowledged)

    def put(self, body: bytes) -> int:
        """Adds an item and returns its sequence; the oldest are dropped if there are too many.
        Raises Unavailable if the item cannot be written: it is then not in the queue."""
        with self._lock:
            now = self._clock()
            self._drop(surplus(self._files, HEADER.size + len(body), now, self._limits))
            item = SpoolItem(self._next, now, body)
            try:
                last, descriptor = self._last()
                self._append(descriptor, last.size, packed(item))
            except OSError as exc:
                raise self._trouble(exc) from exc
            last.add(item)
            return item.sequence

    def waiting(self, most: int = 1, most_bytes: int = 1 << 20) -> Sequence[SpoolItem]:
        """Returns the oldest waiting items: at most so many, and one or this many bytes."""
        with self._lock:
            self._drop(surplus(self._files, 0, self._clock(), self._limits))
            found, size = list[SpoolItem](), 0
            for one in self._files:
                begin = max(self._acknowledged + 1, one.first)
                if begin >= one.after or len(found) >= most or size >= most_bytes:
                    continue
                starts = one.starts[begin - one.first :][: most - len(found)]
                cut = [s for s in starts if s - starts[0] < most_bytes - size] or starts[:1]
                end = one.starts[begin - one.first + len(cut) :][:1] or [one.size]
                try:
                    content = self._read(one, cut[0], end[0])
                except OSError as exc:
                    raise self._trouble(exc) from exc
                found += unpacked(content, begin)
                size += len(content)
            return found

    def done(self, sequence: int) -> None:
        """Acknowledges all items up to this one."""
        with self._lock:
            if self._acknowledged < sequence < self._next:
                self._acknowledged = sequence
                self._save()
            while self._files and self._files[0].after <= self._acknowledged + 1:
                self._remove(self._files[0])

    def close(self) -> None:
        """Closes the files; waiting items stay. May be called twice."""
        with self._lock:
            self._close_last()
            if self._marks >= 0:
                os.close(self._marks)
                self._marks = -1

    @property
    def _next(self) -> int:
        return max(self._acknowledged + 1, self._files[-1].after if self._files else 1)

    def _find(self) -> None:
        """Finds the files of the folder; cuts off an incomplete item at the end of one."""
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            name = path.name.removesuffix(SUFFIX)
            if not name.isdecimal():
                continue
            one = SpoolFile(int(name))
            most = 2 * self._limits.most_bytes + (1 << 30)
            for item in unpacked(read_regular(path, most), one.first):
                one.add(item)
            if not one.starts or one.after <= self._acknowledged + 1:
                path.unlink()
                continue
            os.truncate(path, one.size)
            self._files.append(one)
        if self._files:  # items between two files may have been lost with a disk
            lost = self._files[0].first - self._acknowledged - 1
            if lost > 0:
                self._acknowledged = self._files[0].first - 1
                self._save()

    def _last(self) -> tuple[SpoolFile, int]:
        """Returns the file to write to, a new one if the last is full."""
        last = self._files[-1] if self._files else None
        if last is None or last.size >= self._limits.file_bytes or last.after != self._next:
            self._close_last()
            last = SpoolFile(self._next)
        if self._open is None or self._open[0] != last.first:
            self._close_last()
            flags = os.O_WRONLY | os.O_CREAT
            self._open = last.first, open_regular(self._path(last), flags)
        if not self._files or self._files[-1] is not last:
            self._files.append(last)
        return last, self._open[1]

    @staticmethod
    def _append(descriptor: int, place: int, content: bytes) -> None:
        try:
            written = os.pwrite(descriptor, content, place)
            while written < len(content):  # a disk that is nearly full takes a part
                written += os.pwrite(descriptor, content[written:], place + written)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, place)
            raise

    def _read(self, one: SpoolFile, begin: int, end: int) -> bytes:
        descriptor = open_regular(self._path(one))
        try:
            return os.pread(descriptor, end - begin, begin)
        finally:
            os.close(descriptor)

    def _drop(self, count: int) -> None:
        for one in self._files[:count]:
            waiting = one.after - max(one.first, self._acknowledged + 1)
            if waiting > 0:
                self._dropped += waiting
                self._acknowledged = one.after - 1
                self._save()
            self._remove(one)

    def _remove(self, one: SpoolFile) -> None:
        if self._open is not None and self._open[0] == one.first:
            self._close_last()
        self._files.remove(one)
        with suppress(OSError):
            self._path(one).unlink()

    def _save(self) -> None:
        """Writes down what was acknowledged, in place, which works on a full disk too."""
        try:
            os.pwrite(self._marks, packed_marks(self._acknowledged, self._dropped), 0)
        except OSError as exc:
            raise self._trouble(exc) from exc

    def _close_last(self) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None

    def _path(self, one: SpoolFile) -> Path:
        return self._folder / f"{one.first:020}{SUFFIX}"

    def _trouble(self, error: OSError) -> Unavailable:
        return Unavailable(
            f"the queue in {self._folder} cannot be used: {error.strerror or error}",
            hint="free some space, and check who owns the folder",
        )
