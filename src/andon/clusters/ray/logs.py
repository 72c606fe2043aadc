"""The output of a job, from the stream of Ray's dashboard; a stream that is followed is not read
again from its beginning."""

import threading
import time
from collections.abc import Iterator
from typing import Final

from andon.clusters.ray.dashboard import RayStream
from andon.errors import AndonError
from andon.jobs.outputs import part_of
from andon.model.job.desk import LogPart

MOST_BYTES: Final = 16 << 20
"""Of an output in memory; an earlier part is read again when it is needed."""
QUIET_SECONDS, MOST_SECONDS = 1.0, 8.0
"""A stream that sends nothing for so long has sent all that there is."""
LONGEST_OWN_LINE: Final = 120
_SETTING_UP: Final = b" -- Runtime env is setting up."
_ENTRYPOINT: Final = b"Running entrypoint for job "


def without_own_lines(pieces: Iterator[bytes], entrypoint: bytes) -> Iterator[bytes]:
    """Leaves out the lines that Ray itself writes into an output. A line that may become one is
    held back."""
    rest = entrypoint.split(b"\n")[1:]  # of an entrypoint of several lines
    held, expected = b"", list[bytes]()
    for piece in pieces:
        *lines, held = (held + piece).split(b"\n")
        out = b""
        for line in lines:
            if line.startswith(_ENTRYPOINT):
                expected = list(rest)
            elif expected and line == expected[0]:
                expected.pop(0)
            elif not (line.endswith(_SETTING_UP) and b"INFO job_manager.py" in line):
                out += line + b"\n"
        if held and not (expected or _may_be_own(held)):
            out, held = out + held, b""
        if out:
            yield out
    if held:
        yield held


def _may_be_own(held: bytes) -> bool:
    """Whether a line that has only begun may be Ray's: its time of day, or its first word."""
    if _ENTRYPOINT.startswith(held[: len(_ENTRYPOINT)]):
        return True
    return b"20".startswith(held[:2]) and len(held) < LONGEST_OWN_LINE


class RayOutput:
    """What was read of one job's output. While the job runs, a thread reads Ray's stream, which
    does not end by itself; after its end the whole file is read once."""

    def __init__(self, stream: RayStream, entrypoint: str) -> None:
        self._stream = stream
        self._text, self._start = bytearray(), 0
        self._changed = threading.Condition()
        self._heard, self._over = time.monotonic(), False
        self._trouble: AndonError | None = None
        pieces = without_own_lines(stream.pieces(), entrypoint.encode())
        threading.Thread(target=self._run, args=(pieces,), name="ray output", daemon=True).start()

    def has(self, start: int | None) -> bool:
        """Whether this position is still in memory, and more may follow it."""
        return self._trouble is None and (start is None or start >= self._start)

    def read(self, start: int | None, most_bytes: int, settled: bool) -> LogPart:
        """Returns a part of the output; for a job that has settled, once all of it has arrived."""
        wanted = 0 if start is None else start
        with self._changed:
            until = time.monotonic() + MOST_SECONDS
            while not self._over and time.monotonic() < until:
                quiet = time.monotonic() - self._heard
                if quiet >= QUIET_SECONDS or (self._size > wanted and not settled):
                    break
                self._changed.wait(QUIET_SECONDS)
            if self._trouble is not None:
                raise self._trouble
            size = self._size
            begin = max(self._start, size - most_bytes) if start is None else min(start, size)
            part = bytes(self._text[begin - self._start :][:most_bytes])
        return part_of(part, begin, size, settled)

    def close(self) -> None:
        self._stream.close()

    @property
    def _size(self) -> int:
        return self._start + len(self._text)

    def _run(self, pieces: Iterator[bytes]) -> None:
        trouble = None
        try:
            for piece in pieces:
                with self._changed:
                    self._text += piece
                    if (over := len(self._text) - MOST_BYTES) > 0:
                        del self._text[:over]
                        self._start += over
                    self._heard = time.monotonic()
                    self._changed.notify_all()
        except AndonError as exc:
            trouble = exc
        with self._changed:
            self._trouble, self._over = trouble, True
            self._changed.notify_all()
