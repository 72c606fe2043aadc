"""A filter for loggers that strangers can reach: one line a minute for each kind of message."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

EVERY_SECONDS = 60.0
MOST_KINDS = 64
LONGEST_MESSAGE = 500
_FORMATTER = logging.Formatter()


@dataclass(slots=True)
class _Kind:
    """When messages of this kind were last written, and how many were left out since."""

    written_at: float
    left_out: int = 0


class LogThrottle(logging.Filter):
    """Lets the first message of a kind through, then one a minute with the number left out.

    The kind is the logger, the unformatted message and the type of the exception. What a client
    sent cannot begin a line of its own or move the cursor: control characters are escaped, and the
    lines of a traceback are indented.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: dict[tuple[str, str, str], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        left_out = self._left_out(_kind(record), self._clock())
        if left_out is None:
            return False
        message = escaped(record.getMessage())
        record.msg = f"{message} ({left_out} more of this kind since)" if left_out else message
        record.args = None
        if record.exc_info:
            record.exc_text = _indented(_FORMATTER.formatException(record.exc_info))
        return True

    def _left_out(self, name: tuple[str, str, str], now: float) -> int | None:
        """How many of the kind were left out before this one; None leaves this one out, too."""
        known = self._kinds.get(name)
        if known is not None and now - known.written_at < EVERY_SECONDS:
            known.left_out += 1
            return None
        if known is None and len(self._kinds) >= MOST_KINDS:
            self._forget_the_old(now)
            if len(self._kinds) >= MOST_KINDS:
                return None
        self._kinds[name] = _Kind(now)
        return 0 if known is None else known.left_out

    def _forget_the_old(self, now: float) -> None:
        for name, kind in list(self._kinds.items()):
            if now - kind.written_at >= EVERY_SECONDS:
                del self._kinds[name]


def throttled(name: str, level: int = logging.WARNING) -> logging.Logger:
    """The logger of this name with a throttle of its own, however often it is asked for."""
    logger = logging.getLogger(name)
    if not any(isinstance(one, LogThrottle) for one in logger.filters):
        logger.addFilter(LogThrottle())
        logger.setLevel(level)
    return logger


def escaped(text: str) -> str:
    """The text in one line of printable characters, and not longer than a message needs."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown if len(shown) <= LONGEST_MESSAGE else f"{shown[:LONGEST_MESSAGE]}…"


def _indented(traceback: str) -> str:
    return "\n".join(f"  {escaped(line)}" for line in traceback.splitlines())


def _kind(record: logging.LogRecord) -> tuple[str, str, str]:
    error = record.exc_info[0] if record.exc_info else None
    return record.name, str(record.msg)[:LONGEST_MESSAGE], error.__name__ if error else ""
