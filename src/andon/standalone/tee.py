"""Copies a command's stderr and keeps its tail: for the end of the run, and at any time in a file
that the parent reads.

It runs as a script, without andon, in its own process: a command must not lose its stderr
because the process that started it was killed.
"""

import _signal  # type: ignore[import-not-found]
import os
import select
import sys
import zlib

TAIL_BYTES = 64 * 1024
SHOWN_BYTES = 8 * 1024
HEAD_BYTES = 8  # its length and its checksum: a reader may come in the middle
PIECE_BYTES = 64 * 1024
SURE_BYTES = 4096  # a pipe that can be written takes so much without blocking
MOST_IN_PIPE = 1 << 20


def copy(source: int, target: int, asker: int, answer: int, shown: int | None = None) -> None:
    """Copies until the source ends. When the asker writes something, sends it the tail of all that
    the command has written until then; the asker may have exited. `shown` is a file that always has
    the last part of the output."""
    tail = left = b""
    is_open, is_answered = True, False
    while is_open or left:
        reading = [] if is_answered else [asker]
        readable, writable = _ready([*reading, *([source] if is_open and not left else [])],
                                    [target] if left else [])  # fmt: skip
        if asker in readable:
            is_answered = True
            if _read(asker):
                piece = _all_in(source) if is_open else b""
                tail, left = (tail + piece)[-TAIL_BYTES:], left + piece
                _write(answer, tail)
            os.close(answer)
        elif source in readable:
            piece = _read(source)
            is_open = bool(piece)
            tail, left = (tail + piece)[-TAIL_BYTES:], left + piece
            if shown is not None:
                _show(shown, tail[-SHOWN_BYTES:])
            if not is_open and not is_answered:
                is_answered = True
                _write(answer, tail)
                os.close(answer)
        elif writable:
            left = left[_write(target, left[:SURE_BYTES]) :]


def _show(shown: int, part: bytes) -> None:
    head = len(part).to_bytes(4, "little") + zlib.crc32(part).to_bytes(4, "little")
    os.pwrite(shown, head + part, 0)  # memory of its own: there is no disk that could be full


def _ready(reading: list[int], writing: list[int]) -> tuple[list[int], list[int]]:
    """Returns which descriptors can be read and written; a closed target accepts everything."""
    try:
        return select.select(reading, writing, [])[:2]
    except OSError:
        return [], writing


def _all_in(source: int) -> bytes:
    """Returns what can be read from the source now."""
    found = b""
    while len(found) < MOST_IN_PIPE and select.select([source], [], [], 0)[0]:
        piece = _read(source)
        if not piece:
            break
        found += piece
    return found


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, PIECE_BYTES)
    except OSError:  # a terminal whose other end is closed
        return b""


def _write(descriptor: int, content: bytes) -> int:
    """Returns how many bytes were written; all if nobody reads any more, which the command must not
    notice."""
    try:
        return os.write(descriptor, content)
    except OSError:
        return len(content)


if __name__ == "__main__":
    for _one in ("SIGHUP", "SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2"):
        # A cluster sends them to every process of a job, and the command may still write.
        _signal.signal(getattr(_signal, _one), _signal.SIG_IGN)
    copy(0, 2, *map(int, sys.argv[1:]))
