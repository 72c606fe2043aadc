"""A loop that can be paused or stopped between two of its steps; imports next to nothing."""

import logging
import time
from collections.abc import Callable

log = logging.getLogger("andon")

LONGEST_PAUSE_SECONDS = 300.0  # less than NCCL's default timeout of ten minutes for a collective


class LoopHook:
    """Pauses and stops a loop between two of its steps, in the loop's own thread."""

    def __init__(self, longest_pause_seconds: float) -> None:
        self._longest = longest_pause_seconds
        self.stopped = False  # the loop is asked to stop
        self.paused_seconds = 0.0

    def _stop(self, message: str) -> None:
        self.stopped = True
        log.warning("stopping the loop: %s", message)

    def _pause(self, message: str, calm: Callable[[float], bool], over: str, still: str) -> str:
        """Waits with `calm`, which returns whether the alert is over; returns why it resumes."""
        log.warning("pausing the loop: %s", message)
        began = time.monotonic()
        why = over if calm(self._longest) else still
        from andon.units import measured_seconds

        lasted = time.monotonic() - began
        self.paused_seconds += lasted
        log.warning("resuming the loop after %s: %s", measured_seconds(lasted), why)
        return why
