"""The server's log: one line a minute for each kind of message, and no line a client can forge.

The kind of a message is where in the code it was logged, what was raised and where, and what the
code passed as `extra={"kind": …}`. Nothing a caller sends is part of it, so callers cannot create
kinds.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from andon.failures.log import raised_at
from andon.failures.rules.repeats import EVERY_SECONDS, RepeatLimiter
from andon.units import printable

LIBRARIES = ("engineio.server", "socketio.server")
"""Loggers that add a handler of their own, which no quota limits, unless their level is set."""
LONGEST = 16_000
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

Kind = tuple[str, str, int, str, str]


class LogQuota(logging.Filter):
    """Passes one record of each kind per minute, and logs how many were held back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock, self._limiter = clock, RepeatLimiter()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "counted", False):
            return True
        with self._lock:
            count = self._limiter.happened(kind_of(record), self._clock())
            if count is None:
                self._start_timer()
                return False
        if count > 1:
            message = f"{record.getMessage()} (and {count - 1} more like it within a minute)"
            record.msg, record.args = message, ()
        record.counted = True
        return True

    def report(self) -> None:
        """Log the counts of what was held back and did not happen again."""
        with self._lock:
            self._timer = None
            due = self._limiter.due(self._clock())
            if self._limiter.holds_back:  # of a kind whose minute is not over yet
                self._start_timer()
        for kind, count in due:
            name, path, line, *_ = kind if isinstance(kind, tuple) else ("", "", 0)
            message = "%d more like the message logged at %s:%d"
            logging.getLogger(name).error(message, count, path, line, extra={"counted": True})

    def close(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()

    def _start_timer(self) -> None:
        """Starts a thread, only while something is held back."""
        if self._timer is None:
            self._timer = threading.Timer(EVERY_SECONDS, self.report)
            self._timer.daemon = True
            self._timer.start()


class LineFormatter(logging.Formatter):
    """One line per record, the lines of its traceback indented; control characters escaped."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        head, *more = super().format(record)[:LONGEST].split("\n")
        return "\n".join([printable(head), *(f"    {printable(line)}" for line in more)])


def kind_of(record: logging.LogRecord) -> Kind:
    """Returns the kind of a record: equal kinds count as the same message."""
    raised = ""
    if record.exc_info and record.exc_info[0] is not None:
        raised = f"{record.exc_info[0].__name__} {raised_at(record.exc_info[2])}"
    return record.name, record.pathname, record.lineno, raised, getattr(record, "kind", "")


@contextmanager
def bounded(stream: TextIO | None = None) -> Iterator[LogQuota]:
    """Send the whole log through one quota to standard error while the block lasts."""
    quota, root = LogQuota(), logging.getLogger()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter())
    handler.addFilter(quota)
    root.addHandler(handler)
    for logger in map(logging.getLogger, LIBRARIES):
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.ERROR)
    try:
        yield quota
    finally:
        quota.close()
        root.removeHandler(handler)
