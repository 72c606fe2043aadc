"""Copies a command's stderr through, and keeps the end of it.

It runs as a script, without andon, in its own process: a command must not lose its stderr because
the process that started it was killed.
"""

import os
import select
import sys

TAIL_BYTES = 64 * 1024
PIECE_BYTES = 64 * 1024


def copy(source: int, target: int, asker: int, answer: int) -> None:
    """Until the source ends. Send the tail when the asker writes something; it may have exited."""
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
        elif asker in readable:  # only when there is nothing more to copy
            waiting.remove(asker)
            if _read(asker):
                _write(answer, tail)
            os.close(answer)
    if asker in waiting:
        _write(answer, tail)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, PIECE_BYTES)
    except OSError:  # a terminal whose other end is closed
        return b""


def _write(descriptor: int, content: bytes) -> None:
    try:
        while content:
            content = content[os.write(descriptor, content) :]
    except OSError:  # no reader is left; the command must not notice
        return


if __name__ == "__main__":
    copy(0, 2, int(sys.argv[1]), int(sys.argv[2]))
