"""The server's log: errors of a kind once a minute with a count, and no line that a client made.

A kind is where in the code it was logged and what was raised where: nothing that a caller sends is
part of it, so that no caller can make kinds.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, cast

from andon.core.access.seldom import EVERY_SECONDS, Seldom

LIBRARIES = ("engineio.server", "socketio.server")
"""Loggers that get a handler of their own, which knows no quota, unless they have a level."""
LONGEST = 16_000
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_FORM = "%(asctime)s %(levelname)s %(name)s: %(message)s"

Kind = tuple[str, str, int, str]


class Quota(logging.Filter):
    """Lets one record of a kind pass in a minute, and says how many were held back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock, self._seldom = clock, Seldom()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "counted", False):
            return True
        with self._lock:
            count = self._seldom.happened(kind_of(record), self._clock())
            if count is None:
                self._wake()
                return False
        if count > 1:
            record.msg, record.args = _again(record, count), ()
        record.counted = True
        return True

    def tell(self) -> None:
        """What was held back and did not happen again: else nobody would learn how often."""
        with self._lock:
            self._timer = None
            due = cast("list[tuple[Kind, int]]", self._seldom.due(self._clock()))
        for (name, path, line, _), count in due:
            words = "%d more of the kind that is logged at %s:%d"
            logging.getLogger(name).error(words, count, path, line, extra={"counted": True})

    def close(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()

    def _wake(self) -> None:
        """A thread for as long as something is held back, and none otherwise."""
        if self._timer is None:
            self._timer = threading.Timer(EVERY_SECONDS, self.tell)
            self._timer.daemon = True
            self._timer.start()


class Plain(logging.Formatter):
    """A record is one line, and the lines of its traceback are set off: none can be forged."""

    def __init__(self) -> None:
        super().__init__(_FORM)

    def format(self, record: logging.LogRecord) -> str:
        head, *more = super().format(record)[:LONGEST].split("\n")
        return "\n".join([_escaped(head), *(f"    {_escaped(line)}" for line in more)])


def kind_of(record: logging.LogRecord) -> Kind:
    raised = ""
    if record.exc_info and record.exc_info[0] is not None:
        trace = record.exc_info[2]
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        raised = f"{record.exc_info[0].__name__} {where}"
    return record.name, record.pathname, record.lineno, raised


@contextmanager
def bounded(stream: TextIO | None = None) -> Iterator[Quota]:
    """All of the log goes through one quota to standard error, as long as the block lasts."""
    quota, root = Quota(), logging.getLogger()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Plain())
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


def _again(record: logging.LogRecord, count: int) -> str:
    return f"{record.getMessage()} (and {count - 1} more of the kind within a minute)"


def _escaped(line: str) -> str:
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", line)
