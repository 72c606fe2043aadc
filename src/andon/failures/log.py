"""Logs unexpected errors without stopping: each kind once a minute at most, with a count."""

import threading
import time
from collections.abc import Callable
from types import TracebackType

from andon.failures.rules.repeats import RepeatLimiter


class FailureLog:
    """Logs one line and one traceback for an error that happens at every sample.

    A brief log is for commands, which print to the terminal: the error in one line, and the
    traceback only for debugging.
    """

    def __init__(
        self,
        logger: str,
        text: str,
        clock: Callable[[], float] = time.monotonic,
        brief: bool = False,
    ) -> None:
        self._logger, self._text, self._clock, self._brief = logger, text, clock, brief
        self._lock = threading.Lock()
        self._limiter = RepeatLimiter()
        self.count = 0

    def add(self, error: BaseException) -> None:
        """Counts an error, and logs it unless its kind was logged just now."""
        with self._lock:
            self.count += 1
            times = self._limiter.happened(kind_of(error), self._clock())
        if times is not None:
            self._write(error, times)

    def _write(self, error: BaseException, times: int) -> None:
        import logging  # the sampler has one of these, and most commands log nothing

        log = logging.getLogger(self._logger)
        text = self._text if times == 1 else f"{self._text} ({times} times)"
        if self._brief:
            log.error("%s: %r", text, error, extra={"kind": self._text})
            log.debug("%s", text, exc_info=error)
        else:
            log.error("%s", text, exc_info=error, extra={"kind": self._text})


def kind_of(error: BaseException) -> tuple[str, str]:
    """Returns what was raised and where; its message may differ each time."""
    return type(error).__name__, raised_at(error.__traceback__)


def raised_at(trace: TracebackType | None) -> str:
    """Returns the file and line of the innermost frame."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
