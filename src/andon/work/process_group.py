"""A process with a group of its own: signals reach all of it, and one grace period holds between
SIGTERM and SIGKILL."""

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from andon.host.topology import on_cpus

CHECK_SECONDS = 1.0  # between two checks whether an ending process must be killed
EXIT_SECONDS = 0.05  # for a process that is about to exit, so that its own exit code is seen
OF_TERMINAL = (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)


class ProcessGroup:
    """A process that was started as the leader of a group; usable from any thread and from signal
    handlers. Nothing is signalled once the process has been reaped: its number may be another's."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        grace_seconds: float,
        cpus: Collection[int] | None = None,
        elsewhere: Callable[[int], None] | None = None,
        **streams: Any,
    ) -> None:
        """Starts the command on these CPUs; `streams` are the descriptors that Popen takes.
        `elsewhere` signals the work if the process is only its client."""
        self.grace_seconds, self._elsewhere = grace_seconds, elsewhere
        with on_cpus(cpus):
            self.process = subprocess.Popen(command, env=environment, process_group=0, **streams)
        self._reaping = threading.RLock()  # a signal handler may interrupt the thread that has it
        self._kill_at: float | None = None  # monotonic; set once it was asked to end
        self.end_requested = False  # whether `end` was called

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, number: int) -> None:
        """Sends a signal to the whole group. If the process is only a client, the signal goes to
        the work itself: the client passes the last output on and ends with it."""
        if self._elsewhere is not None and number not in OF_TERMINAL:
            self._elsewhere(number)
            return
        with self._reaping:
            if self.process.returncode is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, number)

    def end(self, number: int = signal.SIGTERM) -> None:
        """Ends the group with this signal; a stopped one is resumed to handle it. `check` kills it
        after the grace period. SIGKILL ends it now."""
        self.end_requested = True
        if number == signal.SIGKILL:
            self.send(signal.SIGKILL)
        else:
            self._ask(number)

    def _ask(self, number: int) -> None:
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self.grace_seconds
            self.send(number)
            self.send(signal.SIGCONT)

    def check(self) -> None:
        """Kills a group that has not ended within the grace period after `end`; repeated while it
        is stuck in the kernel."""
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill_at = time.monotonic() + CHECK_SECONDS
            self.send(signal.SIGKILL)

    def ends_within(self, seconds: float | None) -> bool:
        """Waits for the end of the process without reaping it; None waits until it ends."""
        if self.process.returncode is not None:
            return True
        until = None if seconds is None else time.monotonic() + seconds
        descriptor = os.pidfd_open(self.pid)
        try:
            watched = select.poll()
            watched.register(descriptor, select.POLLIN)
            while not watched.poll(self.pause_seconds(until) * 1000):
                self.check()
                if until is not None and time.monotonic() >= until:
                    return False
        finally:
            os.close(descriptor)
        return True

    def pause_seconds(self, until: float | None = None) -> float:
        """Returns how long to wait before the next `check`, and no longer than `until`."""
        due = [moment for moment in (until, self._kill_at) if moment is not None]
        left = min(due, default=float("inf")) - time.monotonic()
        return min(CHECK_SECONDS, max(left, 0.001))

    def reap(self) -> int:
        """Waits for the end of the process; returns its code as Popen does."""
        self.ends_within(None)
        with self._reaping:
            return self.process.wait()

    def close(self, gracefully: bool = True) -> int:
        """Ends the process and all that is left of its group; returns its code."""
        if not self.ends_within(EXIT_SECONDS) and gracefully:
            self._ask(signal.SIGTERM)
            self.ends_within(self.grace_seconds)
        self.send(signal.SIGKILL)
        return self.reap()
