"""Reads all output of a trial: keeps the end of it, and searches lines as they arrive."""

import os
import re
import threading
import time
from contextlib import suppress

from andon.work.rules.probe.templates import number_of

TAIL_BYTES = 64 * 1024
LONGEST_LINE = 16 * 1024
LEFT_SECONDS = 1.0  # a process that left the group may keep the pipe open


class OutputTail:
    """A pipe with a thread that reads it; `entrance` is the end for the command."""

    def __init__(
        self, ready: "re.Pattern[str] | None" = None, metric: "re.Pattern[str] | None" = None
    ) -> None:
        self._source, self.entrance = os.pipe()
        self._ready, self._metric = ready, metric
        self._tail, self._line = b"", b""
        self.ready_at: float | None = None  # on the monotonic clock
        self.value: float | None = None  # of the last line that matched `metric`
        self.matched = False  # whether a line matched `metric`, with a number or not
        self._thread = threading.Thread(target=self._read, name="andon trial output", daemon=True)
        self._thread.start()

    def close(self) -> str:
        """The end of the output; what comes later is not waited for."""
        with suppress(OSError):
            os.close(self.entrance)
        self._thread.join(LEFT_SECONDS)
        return self._tail.decode(errors="replace")

    def _read(self) -> None:
        with suppress(OSError):
            while piece := os.read(self._source, 65536):
                self._tail = (self._tail + piece)[-TAIL_BYTES:]
                *lines, self._line = (self._line + piece).replace(b"\r", b"\n").split(b"\n")
                self._line = self._line[-LONGEST_LINE:]
                for line in lines:
                    self._look(line.decode(errors="replace"))
        if self._line:
            self._look(self._line.decode(errors="replace"))
        with suppress(OSError):
            os.close(self._source)

    def _look(self, line: str) -> None:
        if self._ready is not None and self.ready_at is None and self._ready.search(line):
            self.ready_at = time.monotonic()
        if self._metric is not None and (found := self._metric.search(line)):
            self.matched = True
            number = number_of(found)
            self.value = self.value if number is None else number
