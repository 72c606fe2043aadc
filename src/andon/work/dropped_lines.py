"""Removes the lines that a client of remote work adds to error output."""

import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

PIECE_BYTES = 1 << 16
LONGEST_LINE = 4096
END_SECONDS = 1.0  # for what is left in the pipe: a process that lives on may keep it open


@contextmanager
def without_lines(patterns: Sequence[str]) -> Iterator[int]:
    """Yields a descriptor that copies text to standard error without the matching lines. Lines that
    cannot match are written at once."""
    source, entrance = os.pipe()
    passing = threading.Thread(
        target=_pass_on, args=(source, patterns), name="andon errors", daemon=True
    )
    passing.start()
    try:
        yield entrance
    finally:
        os.close(entrance)
        passing.join(END_SECONDS)


def _pass_on(source: int, patterns: Sequence[str]) -> None:
    lines = DroppedLines(patterns)
    while piece := os.read(source, PIECE_BYTES):
        _write(lines.feed(piece))
    _write(lines.rest())


def _write(text: bytes) -> None:
    with suppress(OSError):
        while text:
            text = text[os.write(2, text) :]


class DroppedLines:
    """Removes matching lines from a text that comes in pieces. A line is held back only while it
    begins with the first word of a pattern."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._drop = re.compile("|".join(patterns).encode())
        prefixes = (re.match(r"\w*", one) for one in patterns)
        self._begins = [b"" if prefix is None else prefix[0].encode() for prefix in prefixes]
        self._held, self._inside = b"", False

    def feed(self, piece: bytes) -> bytes:
        """Adds a piece; returns the text that can be shown now."""
        out = b""
        for part in piece.splitlines(keepends=True):
            out += self._part(part)
        return out

    def rest(self) -> bytes:
        """Returns the text that is still held back, at the end."""
        held, self._held = self._held, b""
        return b"" if self._drop.fullmatch(held) else held

    def _part(self, part: bytes) -> bytes:
        if self._inside:
            self._inside = not part.endswith(b"\n")
            return part
        line, self._held = self._held + part, b""
        if line.endswith(b"\n"):
            return b"" if self._drop.fullmatch(line.rstrip(b"\r\n")) else line
        alike = any(line.startswith(one[: len(line)]) for one in self._begins)
        if alike and len(line) < LONGEST_LINE:
            self._held = line
            return b""
        self._inside = True
        return line
