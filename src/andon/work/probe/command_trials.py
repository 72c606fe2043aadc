"""Runs one trial of a command: until it ends, is ready, has run long enough, or hangs."""

import re
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from andon.leases.book.hold import Hold
from andon.work.launcher import CommandEnd, Launcher
from andon.work.output_tail import OutputTail
from andon.work.rules.probe import StopReason, TrialEnd, filled, number_of


class _TrialLines:
    """Parses a trial's output for its ready line and its metric."""

    def __init__(self, limits: "TrialLimits") -> None:
        self._limits = limits
        self.ready_at: float | None = None  # on the monotonic clock
        self.value: float | None = None  # of the last line that matched `metric`

    def __call__(self, line: str) -> None:
        ready, metric = self._limits.ready, self._limits.metric
        if ready is not None and self.ready_at is None and ready.search(line):
            self.ready_at = time.monotonic()
        if metric is not None and (found := metric.search(line)):
            number = number_of(found)
            self.value = self.value if number is None else number


CHECK_SECONDS = 0.1
LEASE_CHECK_SECONDS = 1.0
AFTER_READY_SECONDS = 0.5  # so that its memory is sampled once it is ready


class TrialLimits(Struct, frozen=True):
    """When a trial is over although its command still runs, and what to find in its output."""

    timeout_seconds: float = 300.0
    seconds: float | None = None  # a command that runs for this long fits
    ready: re.Pattern[str] | None = None  # a command that prints this fits
    metric: re.Pattern[str] | None = None  # the number in it is its throughput


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
        lines = _TrialLines(self._limits)
        output, watch = OutputTail(lines), _StopWatch(self._limits, lines, self._lease_check)
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
            end = launcher.run(watch, self._pass_on)
        finally:
            tail = output.close()
        return self._ended(end, watch, lines, tail)

    def _pass_on(self, text: str) -> None:
        if "Ctrl-C" in text:  # a trial that is stopped as planned needs no notice
            self._notify(text)

    def _ended(
        self, end: CommandEnd, watch: "_StopWatch", lines: _TrialLines, tail: str
    ) -> TrialEnd:
        wanted = self._limits.ready is not None
        stopped = watch.reason if end.ended_for is not None else None
        if stopped is None and wanted and lines.ready_at is not None:
            stopped = StopReason.READY  # it ended right after it had said so
        return TrialEnd(
            code=end.code,
            signal=end.signal,
            seconds=round(end.seconds, 3),
            tail=tail,
            stopped=stopped,
            why=watch.why,
            interrupted=end.interrupted,
            never_ready=wanted and lines.ready_at is None,
            throughput=lines.value,
        )


class _StopWatch:
    """Returns why a trial must stop, if it must; called ten times a second."""

    def __init__(
        self, limits: TrialLimits, lines: _TrialLines, lease_check: Callable[[], str | None]
    ) -> None:
        self._limits, self._lines, self._lease_check = limits, lines, lease_check
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
        ready_at = self._lines.ready_at
        if ready_at is not None and now - ready_at >= AFTER_READY_SECONDS:
            return StopReason.READY
        if self._limits.seconds is not None and now - self._began >= self._limits.seconds:
            return StopReason.HELD
        if now - self._began >= self._limits.timeout_seconds:
            return StopReason.TIMEOUT
        return None
