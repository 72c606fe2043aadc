"""The format of a queue on disk, which keeps items in files, and which files exceed its limits."""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

from msgspec import Struct

HEADER = struct.Struct("<IIQd")  # checksum of all that follows, length, sequence, time
MARKS = struct.Struct("<QQI")  # acknowledged, dropped, their checksum
DAY_SECONDS = 86_400.0


class SpoolLimits(Struct, frozen=True):
    """The limits of a queue; the oldest items beyond them are dropped."""

    most_bytes: int = 100_000_000
    most_seconds: float = DAY_SECONDS
    files: int = 16
    """A file is dropped whole: it has this part of the bytes."""

    @property
    def file_bytes(self) -> int:
        return self.most_bytes // self.files


class SpoolItem(NamedTuple):
    """An item of the queue. Sequences have no gaps and are never used again."""

    sequence: int
    at: float
    body: bytes


class SpoolFile(Struct):
    """One file: where each of its items begins, and when the last was added."""

    first: int
    size: int = 0
    at: float = 0.0
    starts: list[int] = []

    @property
    def after(self) -> int:
        """The sequence after its last item."""
        return self.first + len(self.starts)

    def add(self, item: SpoolItem) -> None:
        self.starts.append(self.size)
        self.size += HEADER.size + len(item.body)
        self.at = item.at


def packed(item: SpoolItem) -> bytes:
    rest = HEADER.pack(0, len(item.body), item.sequence, item.at)[4:] + item.body
    return crc32(rest).to_bytes(4, "little") + rest


def unpacked(content: bytes, first: int) -> Iterator[SpoolItem]:
    """Yields the items of a file that begins with this sequence, up to the first incomplete one,
    which a killed process may have left."""
    place, sequence = 0, first
    while len(content) - place >= HEADER.size:
        checksum, length, number, at = HEADER.unpack_from(content, place)
        end = place + HEADER.size + length
        if end > len(content) or number != sequence:
            return
        if crc32(memoryview(content)[place + 4 : end]) != checksum:
            return
        yield SpoolItem(number, at, content[place + HEADER.size : end])
        place, sequence = end, sequence + 1


def packed_marks(acknowledged: int, dropped: int) -> bytes:
    return MARKS.pack(acknowledged, dropped, crc32(struct.pack("<QQ", acknowledged, dropped)))


def unpacked_marks(content: bytes) -> tuple[int, int]:
    """Returns the last acknowledged sequence and how many were dropped; zeros if unreadable."""
    if len(content) < MARKS.size:
        return 0, 0
    acknowledged, dropped, checksum = MARKS.unpack_from(content)
    right = crc32(struct.pack("<QQ", acknowledged, dropped)) == checksum
    return (acknowledged, dropped) if right else (0, 0)


def surplus(files: Sequence[SpoolFile], more: int, now: float, limits: SpoolLimits) -> int:
    """Returns how many of the oldest files must go before `more` bytes are added. A file dated in
    the future, by a clock that was ahead, is not old."""
    count, size = 0, sum(one.size for one in files) + more
    for one in files:
        if size <= limits.most_bytes and now - one.at <= limits.most_seconds:
            break
        count, size = count + 1, size - one.size
    return count
