"""What a supervisor holds: the lease of its job, and the command in its own session.

The supervisor imports this file from its own folder, without andon.
"""

# ruff: noqa: PTH112, PTH123, PTH208
# pathlib takes longer to import than all of this

from __future__ import annotations

import errno
import fcntl
import os
import time

TYPE_CHECKING = False  # `typing` takes longer to import than the rest
if TYPE_CHECKING:
    import signal
    from contextlib import suppress
    from typing import Any

    from andon.standalone.quick_parts import dumps
else:
    from quick_parts import dumps, signal, suppress

DRIFT_SECONDS = 2.0  # of a clock that is being adjusted
NOT_EXECUTABLE, NOT_FOUND = 126, 127
LONGEST_NAME = 250  # of what could not be started: the end of a job has room for it
Task = dict[str, "Any"]


def boot_seconds() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def start_ticks(pid: int) -> int:
    """Returns when a process started, in ticks since boot."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _is_living_member(name: str, group: int) -> bool:
    if name.isdecimal():
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            state, _, found = file.read().rpartition(b")")[2].split()[:3]
            return int(found) == group and state not in (b"Z", b"X")
    return False


class HeldLease:
    """The locked file of the lease, and its end as a duration on a clock that is never set."""

    def __init__(self, task: Task, descriptors: list[int]) -> None:
        self.name = task["lease_file"]
        self.file, self.folder = descriptors if len(descriptors) == 2 else (-1, -1)
        self.deadline: float | None = None
        self.shown = 0.0

    def begin(self, seconds: float) -> None:
        self.deadline = boot_seconds() + seconds
        self.shown = self._time()

    def _time(self) -> float:
        return os.fstat(self.file).st_mtime if self.file >= 0 else 0.0

    def add_work(self, pid: int, ticks: int) -> None:
        """Adds the process that runs on the lease to its file; the file's time, which is the
        lease's end, stays."""
        if self.file < 0:
            return
        before = os.fstat(self.file).st_mtime_ns
        line = dumps({"work": {"pid": pid, "started_ticks": ticks, "group": pid}}) + "\n"
        with suppress(OSError):  # a full disk: the line is lost, not the lease
            os.write(self.file, line.encode())
        with suppress(OSError):
            os.utime(self.file, ns=(before, before))

    def follow(self) -> None:
        """Follows a changed end, which is the file's time; setting the clock does not matter."""
        if self.deadline is None or self.file < 0:
            return
        wall, boot, shown = time.time(), boot_seconds(), self._time()
        if shown != self.shown:
            self.shown, self.deadline = shown, boot + (shown - wall)
        right = wall + self.deadline - boot
        if abs(right - self.shown) > DRIFT_SECONDS:
            with suppress(OSError):  # a disk that became read-only does not end the job
                os.utime(self.file, (right, right))
            self.shown = self._time()

    def release(self) -> None:
        """Releases the lease; the file is removed first: no valid lease is ever unlocked."""
        if self.file < 0:
            return
        with suppress(OSError):
            os.unlink(self.name, dir_fd=self.folder)
        with suppress(OSError):
            fcntl.flock(self.file, fcntl.LOCK_UN)
        os.close(self.file)
        os.close(self.folder)
        self.file = self.folder = -1


class JobCommand:
    """The command of the job in its own session. It waits until `go` is called."""

    def __init__(self, task: Task, output: int, lease: HeldLease, close: tuple[int, ...]) -> None:
        self._task = task
        self.failure: str | None = None
        gate, self._go = os.pipe()
        self._failed, failed = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                for descriptor in (self._go, self._failed, *close):
                    os.close(descriptor)
                self._become(gate, failed, output, lease)
            finally:
                os._exit(NOT_EXECUTABLE)
        os.close(gate)
        os.close(failed)
        self.ticks = start_ticks(self.pid)

    def _become(self, gate: int, failed: int, output: int, lease: HeldLease) -> None:
        os.setsid()
        if os.read(gate, 1) != b"g":
            os._exit(0)  # the supervisor died before it had claimed the attempt
        task = self._task
        try:
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            for descriptor in (lease.file, lease.folder):
                if descriptor > 2:
                    os.set_inheritable(descriptor, True)
            for one in ("PIPE", "XFSZ", "TERM", "INT", "HUP"):
                signal.signal(getattr(signal, f"SIG{one}"), signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            if task.get("cpus"):
                with suppress(OSError):  # all of them were taken away meanwhile: it runs unbound
                    os.sched_setaffinity(0, task["cpus"])
            os.umask(task["umask"])
            os.chdir(task["folder"])
            os.execvpe(task["argv"][0], task["argv"], task["environment"])  # noqa: S606
        except (OSError, ValueError) as error:  # ValueError: what no encoding has
            number = getattr(error, "errno", None)
            missing = number in (errno.ENOENT, errno.ENOTDIR)
            where = task["argv"][0] if os.path.isdir(task["folder"]) else task["folder"]
            why = os.strerror(number) if number else "not text that a command can have"
            text = f"{where[:LONGEST_NAME]}: {why}"
            write_all(failed, text.encode(errors="replace"))
            write_all(2, f"andon: {text}\n".encode(errors="replace"))
            os._exit(NOT_FOUND if missing else NOT_EXECUTABLE)

    def go(self) -> None:
        """Starts the command; afterwards `failure` says why it could not be started, or is None."""
        os.write(self._go, b"g")
        os.close(self._go)
        failure = os.read(self._failed, 4096)
        os.close(self._failed)
        self.failure = failure.decode(errors="replace") if failure else None

    def abandon(self) -> None:
        os.close(self._go)
        os.waitpid(self.pid, 0)

    def send(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def has_group(self) -> bool:
        """Whether a process of the command's group is alive; zombies, which a container may never
        reap, do not count."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, 0)
            return any(_is_living_member(name, self.pid) for name in os.listdir("/proc"))
        return False
