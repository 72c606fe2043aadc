"""Retries what fails: waits longer each time, and logs when the failure begins and ends."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from andon.errors import AndonError
from andon.failures.rules.backoff import BackOff, Failures
from andon.units import human_seconds


class RetryTexts(NamedTuple):
    """The messages: `begins` gets the reason, `over` how long the failure lasted."""

    begins: Callable[[str], str]
    over: Callable[[str], str]


class Clocks(NamedTuple):
    """The monotonic clock and UTC."""

    steady: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


USUAL, REAL = BackOff(), Clocks()


class Retrying:
    """The state of one activity that may fail. One thread tries; any thread may read.

    Each reason is reported once while it lasts. The caller decides what counts as success.
    """

    def __init__(
        self,
        report: Callable[[str], None],
        texts: RetryTexts,
        translate: Callable[[Exception], AndonError] | None = None,
        back_off: BackOff = USUAL,
        clocks: Clocks = REAL,
    ) -> None:
        """`translate` turns an unexpected error into one for people, and may log it; without it
        such errors are not caught."""
        self._report, self._texts, self._translate = report, texts, translate
        self._back_off, self._clocks = back_off, clocks
        self._failures = Failures()
        self._busy_since: float | None = None

    @property
    def trouble(self) -> AndonError | None:
        """The last error; None while it works."""
        return self._failures.trouble

    @property
    def failures(self) -> Failures:
        """Returns the failures so far, as of one moment."""
        return self._failures

    @property
    def due(self) -> float:
        """Returns when the next attempt is due, on the monotonic clock; long ago while it works."""
        return self._failures.due(self._back_off)

    def stuck_seconds(self, limit_seconds: float) -> float | None:
        """Returns how long the current attempt has been running, if that is at least the limit."""
        began = self._busy_since
        seconds = -1.0 if began is None else self._clocks.steady() - began
        return None if seconds < limit_seconds else seconds

    def attempt(self, act: Callable[[], object]) -> AndonError | None:
        """Attempts it now; returns the error, which counts as a failure."""
        self._busy_since = self._clocks.steady()
        try:
            act()
        except AndonError as exc:
            trouble = exc
        except Exception as exc:
            if self._translate is None:
                raise
            trouble = self._translate(exc)
        else:
            return None
        finally:
            self._busy_since = None
        self.failed(trouble)
        return trouble

    def failed(self, trouble: AndonError) -> None:
        before = self._failures
        self._failures = before.failed(trouble, self._clocks.steady(), self._clocks.wall())
        if before.is_other_reason(trouble):
            self._report(self._texts.begins(trouble.reason))

    def succeeded(self) -> None:
        """Notes a success, and logs the end of a failure."""
        before = self._failures
        if before.count:
            self._failures = Failures()
            lasted = self._clocks.steady() - before.first
            self._report(self._texts.over(human_seconds(lasted)))

    def pause(self, stopped: threading.Event) -> bool:
        """Waits until the next attempt is due; returns whether it was stopped instead."""
        return stopped.wait(max(0.0, self.due - self._clocks.steady()))
