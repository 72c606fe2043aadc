"""Copies a command's error output to where it belongs, and keeps the end of it.

Run as a file, without andon, in a process of its own: a command must not lose its error output
because the one that started it was killed.
"""

import os
import select
import sys

TAIL_BYTES = 64 * 1024
PIECE_BYTES = 64 * 1024


def copy(source: int, target: int, asker: int, answer: int) -> None:
    """Until the source ends. When the asker has spoken, send it the tail; it may also be gone."""
    tail = b""
    waiting = [source, asker]
    while source in waiting:
        readable, _, _ = select.select(waiting, [], [])
        if source in readable:
            piece = _read(source)
            if not piece:
                waiting.remove(source)
            tail = (tail + piece)[-TAIL_BYTES:]
            _write(target, piece)
        elif asker in readable:  # only when nothing more is there to be copied
            waiting.remove(asker)
            if _read(asker):
                _write(answer, tail)
            os.close(answer)
    if asker in waiting:
        _write(answer, tail)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, PIECE_BYTES)
    except OSError:  # a terminal whose other side is closed
        return b""


def _write(descriptor: int, content: bytes) -> None:
    try:
        while content:
            content = content[os.write(descriptor, content) :]
    except OSError:  # nobody reads it any more; the command must not feel it
        return


if __name__ == "__main__":
    copy(0, 2, int(sys.argv[1]), int(sys.argv[2]))
