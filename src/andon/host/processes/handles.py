"""A process held by a pidfd, so that a later process with the same pid is never signalled.

The one way in which andon signals a process that it did not start: `andon kill`, `andon top` and
`andon release` use it.
"""

import os
import select
import signal
from contextlib import suppress

from andon.errors import AndonError, Denied, Gone, Unavailable
from andon.host.files import read
from andon.host.rules.proc_stat import ENDED, Stat, parse_stat

_STAT_BYTES = 1024
_STOPPED = (b"T", b"t")  # by a signal, by a debugger


class ProcessHandle:
    """One process, opened while it ran; close it, or use it in a `with`."""

    def __init__(self, pid: int, descriptor: int, stat: Stat) -> None:
        self.pid = pid
        self.stat = stat
        """As it was when the process was opened."""
        self._descriptor = descriptor

    @classmethod
    def open(cls, pid: int, started_ticks: int | None = None) -> "ProcessHandle":
        """Holds the process that has this pid now; raises Gone if it has ended, or began at
        another time.

        Its stat is read after the pidfd was opened, and counts because the process was still
        alive afterwards: as long as it lives, its pid cannot be another's.
        """
        gone = Gone(f"there is no process with pid {pid}", hint="it may have just ended")
        descriptor = _pidfd(pid, gone)
        try:
            stat = stat_of(pid)
            if stat is None or stat.state in ENDED or _has_ended(descriptor):
                raise gone
            if started_ticks is not None and stat.start_ticks != started_ticks:
                raise Gone(
                    f"the process that had pid {pid} has ended",
                    hint="another process has that pid now; nothing was signalled",
                )
        except BaseException:
            os.close(descriptor)
            raise
        return cls(pid, descriptor, stat)

    def send(self, number: int) -> None:
        """Signals the process; a stopped one is resumed, because it would not notice.

        Raises Gone if it has ended, Denied if this user may not.
        """
        try:
            signal.pidfd_send_signal(self._descriptor, number)
            noticed = (0, signal.SIGKILL, signal.SIGCONT, signal.SIGSTOP)
            if number not in noticed and is_stopped(self.pid):
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._descriptor, signal.SIGCONT)
        except ProcessLookupError as exc:
            raise Gone(f"pid {self.pid} has just ended") from exc
        except PermissionError as exc:
            raise Denied(f"not allowed to signal pid {self.pid}", hint="use sudo") from exc

    def may_signal(self) -> bool:
        """Whether the kernel lets this user signal it; a process that has ended is no obstacle."""
        try:
            self.send(0)
        except Denied:
            return False
        except Gone:
            return True
        return True

    def fileno(self) -> int:
        """Returns the pidfd: readable once the process has ended."""
        return self._descriptor

    def ended(self, seconds: float = 0.0) -> bool:
        """Whether the process has ended, or ends within this time. A zombie has ended."""
        return _has_ended(self._descriptor, seconds)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> "ProcessHandle":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal or a debugger, and so handles no signals."""
    stat = stat_of(pid)
    return stat is not None and stat.state in _STOPPED


def stat_of(pid: int) -> Stat | None:
    """Parses /proc/<pid>/stat; None if there is no such process."""
    return parse_stat(read(f"/proc/{pid}/stat", _STAT_BYTES) or b"")


def _pidfd(pid: int, gone: AndonError) -> int:
    if not hasattr(os, "pidfd_open"):
        raise Unavailable(
            "ending a process needs Linux 5.3 or later", hint=f"use the system's: kill {pid}"
        )
    try:
        return os.pidfd_open(pid)
    except (ProcessLookupError, OverflowError, ValueError) as exc:
        raise gone from exc
    except OSError as exc:
        raise Unavailable(
            f"pid {pid} cannot be opened: {exc.strerror or exc}",
            hint="andon signals a process only through a pidfd (Linux 5.3 or later)",
        ) from exc


def _has_ended(descriptor: int, seconds: float = 0.0) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))
