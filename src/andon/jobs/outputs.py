"""The output of a job: a part of it, in whole characters, and its progress."""

import os
from pathlib import Path

from andon.errors import Unavailable
from andon.host.files import open_regular
from andon.model.job.desk import LogPart
from andon.model.job.progress import WorkProgress
from andon.runs.rules.progress import TAIL_BYTES, progress_in, work_progress


def read_output(path: Path, start: int | None, most_bytes: int, ended: bool) -> LogPart:
    """Returns a part of an output file."""
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
    """Returns bytes at `begin` of an output of this size; `ended` if it grows no more."""
    whole = _whole_characters(part) if begin + len(part) < size or not ended else part
    end = begin + len(whole)
    return LogPart(begin, end, whole.decode("utf-8", "replace"), ended and end == size)


def _whole_characters(part: bytes) -> bytes:
    """Returns the bytes without an incomplete character at their end."""
    for length in range(1, min(4, len(part)) + 1):
        lead = part[-length]
        if lead & 0xC0 != 0x80:
            wanted = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1
            return part[:-length] if wanted > length else part
    return part


def output_progress(path: Path, started: float | None) -> WorkProgress | None:
    """Returns the progress at the end of an output; None if it shows no steps or cannot be read.
    Only the last bytes are read."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            reported_at = os.fstat(file.fileno()).st_mtime
            file.seek(max(0, size - TAIL_BYTES))
            tail = file.read(TAIL_BYTES)
    except OSError:
        return None
    reported = progress_in(tail.decode(errors="replace"))
    return None if reported is None else work_progress(reported, started, reported_at)
