"""A part of a job's output, of whole characters: from a position on, or the end of it."""

import os
from pathlib import Path

from andon.errors import Unavailable
from andon.model.job.desk import LogPart


def read_output(path: Path, start: int | None, most_bytes: int, ended: bool) -> LogPart:
    """Returns a part of a file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = max(0, size - most_bytes) if start is None else min(start, size)
            file.seek(begin)
            part = file.read(most_bytes)
    except FileNotFoundError:
        return LogPart(0, 0, "", ended)
    except OSError as exc:
        raise Unavailable(f"its output cannot be read: {exc.strerror}") from exc
    return part_of(part, begin, size, ended)


def part_of(part: bytes, begin: int, size: int, ended: bool) -> LogPart:
    """Returns bytes from this position on, of an output that is so large; `ended`: for good."""
    whole = _whole_characters(part) if begin + len(part) < size or not ended else part
    end = begin + len(whole)
    return LogPart(begin, end, whole.decode("utf-8", "replace"), ended and end == size)


def _whole_characters(part: bytes) -> bytes:
    """Leaves out the beginning of a character whose rest is not there."""
    for length in range(1, min(4, len(part)) + 1):
        lead = part[-length]
        if lead & 0xC0 != 0x80:
            wanted = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1
            return part[:-length] if wanted > length else part
    return part
