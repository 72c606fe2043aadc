"""Runs one trial of a command: until it ends, is ready, has run long enough, or hangs."""

import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from andon.leases.book.hold import Hold
from andon.work.launcher import CommandEnd, Launcher
from andon.work.rules.probe import StopReason, TrialEnd, filled, number_of

# Reads all output of a trial: keeps the end of it, and searches lines as they arrive.

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
        """Returns the end of the output; does not wait for later output."""
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


CHECK_SECONDS = 0.1
LEASE_CHECK_SECONDS = 1.0
AFTER_READY_SECONDS = 0.5  # so that its memory is sampled once it is ready


class TrialLimits(Struct, frozen=True):
    """When a trial is over although its command still runs, and what to find in its output."""

    timeout_seconds: float = 300.0
    seconds: float | None = None  # a command that runs for this long fits
    ready: "re.Pattern[str] | None" = None  # a command that prints this fits
    metric: "re.Pattern[str] | None" = None  # the number in it is its throughput


class CommandTrials:
    """Starts the command with one size after the other, each in a process group of its own."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        limits: TrialLimits,
        grace_seconds: float,
        hold: Hold | None = None,
        lease_check: Callable[[], str | None] = lambda: None,
        notify: Callable[[str], None] = lambda text: None,
        cpus: frozenset[int] | None = None,
    ) -> None:
        self._command, self._environment, self._limits = command, environment, limits
        self._hold, self._lease_check, self._notify = hold, lease_check, notify
        self._grace_seconds, self._cpus = grace_seconds, cpus

    def __call__(self, size: int) -> TrialEnd:
        output = OutputTail(self._limits.ready, self._limits.metric)
        watch = _StopWatch(self._limits, output, self._lease_check)
        launcher = Launcher(
            filled(self._command, size),
            self._environment,
            self._grace_seconds,
            self._hold,
            cpus=self._cpus,
            output=output.entrance,
            check_seconds=CHECK_SECONDS,
        )
        try:
            end = launcher.run(watch, self._said)
        finally:
            tail = output.close()
        return self._ended(end, watch, output, tail)

    def _said(self, text: str) -> None:
        if "Ctrl-C" in text:  # a trial that is stopped as planned needs no notice
            self._notify(text)

    def _ended(
        self, end: CommandEnd, watch: "_StopWatch", output: OutputTail, tail: str
    ) -> TrialEnd:
        wanted = self._limits.ready is not None
        stopped = watch.reason if end.ended_for is not None else None
        if stopped is None and wanted and output.ready_at is not None:
            stopped = StopReason.READY  # it ended right after it had said so
        return TrialEnd(
            code=end.code,
            signal=end.signal,
            seconds=round(end.seconds, 3),
            tail=tail,
            stopped=stopped,
            why=watch.why,
            interrupted=end.interrupted,
            never_ready=wanted and output.ready_at is None,
            throughput=output.value,
        )


class _StopWatch:
    """Decides when a trial must stop; called ten times a second."""

    def __init__(
        self, limits: TrialLimits, output: OutputTail, lease_check: Callable[[], str | None]
    ) -> None:
        self._limits, self._output, self._lease_check = limits, output, lease_check
        self._began = time.monotonic()
        self._lease_due = self._began
        self.reason: StopReason | None = None
        self.why = ""

    def __call__(self) -> str | None:
        now = time.monotonic()
        self.reason = self._found(now)
        return None if self.reason is None else str(self.reason)

    def _found(self, now: float) -> StopReason | None:
        if now >= self._lease_due:
            self._lease_due = now + LEASE_CHECK_SECONDS
            if (why := self._lease_check()) is not None:
                self.why = why
                return StopReason.LEASE
        ready_at = self._output.ready_at
        if ready_at is not None and now - ready_at >= AFTER_READY_SECONDS:
            return StopReason.READY
        if self._limits.seconds is not None and now - self._began >= self._limits.seconds:
            return StopReason.HELD
        if now - self._began >= self._limits.timeout_seconds:
            return StopReason.TIMEOUT
        return None
