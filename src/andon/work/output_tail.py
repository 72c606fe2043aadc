"""Reads all output of a process: keeps the end of it, and reports lines as they arrive."""

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress

TAIL_BYTES = 64 * 1024
LONGEST_LINE = 16 * 1024
REST_SECONDS = 1.0  # for the rest of it: a process that left the group may keep the pipe open


class OutputTail:
    """A pipe with a thread that reads it; `entrance` is the end for the process."""

    def __init__(self, each_line: Callable[[str], None] | None = None) -> None:
        """`each_line` is called with each line."""
        self._source, self.entrance = os.pipe()
        os.set_blocking(self._source, False)
        self._each_line, self._reading = each_line, threading.Lock()
        self._tail, self._line = b"", b""
        self.written = 0  # how many bytes have been read
        self._thread = threading.Thread(target=self._follow, name="andon output", daemon=True)
        self._thread.start()

    def started(self) -> None:
        """Closes this process's copy of the pipe's entrance, so that the end of output is seen."""
        if self.entrance >= 0:
            os.close(self.entrance)
        self.entrance = -1

    def text(self) -> str:
        """Returns the end of what has been written so far."""
        self._drain()
        return self._tail.decode(errors="replace")

    def since(self, written: int) -> bytes:
        """Returns the end of what was written after this many bytes."""
        self._drain()
        new = min(len(self._tail), self.written - written)
        return self._tail[len(self._tail) - new :]

    def close(self) -> str:
        """Returns the end of the output; waits a little for the rest of it."""
        self.started()
        self._thread.join(REST_SECONDS)
        return self._tail.decode(errors="replace")

    def _follow(self) -> None:
        watched = select.poll()
        watched.register(self._source, select.POLLIN)
        with suppress(OSError):
            while watched.poll() and self._drain():
                pass
        if self._line:
            self._pass_on(self._line)
        with self._reading:
            os.close(self._source)
            self._source = -1

    def _drain(self) -> bool:
        """Reads what is available; returns False at the end. The thread and callers use it."""
        with self._reading:
            while self._source >= 0:
                try:
                    piece = os.read(self._source, 65536)
                except BlockingIOError:
                    return True
                if not piece:
                    return False
                self.written += len(piece)
                self._tail = (self._tail + piece)[-TAIL_BYTES:]
                if self._each_line is not None:
                    *lines, self._line = (self._line + piece).replace(b"\r", b"\n").split(b"\n")
                    self._line = self._line[-LONGEST_LINE:]
                    for line in lines:
                        self._pass_on(line)
        return False

    def _pass_on(self, line: bytes) -> None:
        if self._each_line is not None:
            self._each_line(line.decode(errors="replace"))
