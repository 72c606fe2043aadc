"""Runs one attempt of a job: claims it, starts its command, waits, and writes how it ended.

It runs as a script, without andon, so that it is small and nothing of a later version touches a
job that runs. Its standard input is a socket: the dispatcher sends what to do and the locked files
of the lease. Without that it exits, and nothing has started.
"""

# ruff: noqa: PTH103, PTH104, PTH108, PTH112, PTH118, PTH123
# pathlib takes longer to import than all of this

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False  # `typing` takes longer to import than the rest
if TYPE_CHECKING:
    from typing import Any

CLAIM, OUTPUT, END = "claim", "output.log", "end.json"
CHECK_SECONDS = 1.0  # how often the lease's end and the size of the output are looked at
DRIFT_SECONDS = 2.0  # of a clock that is being adjusted
END_BYTES = 4096  # reserved for the end, which must fit on a disk that has become full
CLEAN_SECONDS = 60.0  # how long removing a container may take
RETRY_SECONDS = 600.0  # how long writing the end is tried
NOT_EXECUTABLE, NOT_FOUND = 126, 127
FIRST_BYTES = 8  # of a message: its length
Task = dict[str, "Any"]


def boot_seconds() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def start_ticks(pid: int) -> int:
    """When a process started, in ticks since boot."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def host_kills() -> int:
    """How many processes the kernel's OOM killer has killed since boot."""
    with suppress(OSError, ValueError), open("/proc/vmstat", encoding="ascii") as file:
        for line in file:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def receive(channel: socket.socket) -> tuple[Task | None, list[int]]:
    """The task, and the descriptors of the lease; None where the dispatcher has gone."""
    data, descriptors, _, _ = socket.recv_fds(channel, 65536, 2)
    while data and (len(data) < FIRST_BYTES or _lacks(data)):
        piece = channel.recv(65536)
        if not piece:
            return None, descriptors
        data += piece
    return (json.loads(data[FIRST_BYTES:]), descriptors) if data else (None, descriptors)


def _lacks(data: bytes) -> bool:
    """Whether more of a message is to come."""
    return len(data) < FIRST_BYTES + int.from_bytes(data[:FIRST_BYTES], "big")


def sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    with suppress(OSError):  # some file systems cannot
        os.fsync(descriptor)
    os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def note_in(path: str) -> Task | None:
    """A small file of the job, such as `cancelled`; None where there is none."""
    try:
        with open(path, "rb") as file:
            said = json.loads(file.read(65536))
        return said if isinstance(said, dict) else {}
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {}


class HeldLease:
    """The locked file of the lease, and when it ends: a duration on a clock that is never set."""

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
        """Say in the lease what runs on it; its time, which is its end, stays."""
        if self.file < 0:
            return
        before = os.fstat(self.file).st_mtime_ns
        line = json.dumps({"work": {"pid": pid, "started_ticks": ticks, "group": pid}}) + "\n"
        with suppress(OSError):  # a full disk: the line is lost, not the lease
            os.write(self.file, line.encode())
        os.utime(self.file, ns=(before, before))

    def follow(self) -> None:
        """Its owner moves the end by changing the file's time; setting the clock does not."""
        if self.deadline is None or self.file < 0:
            return
        wall, boot, shown = time.time(), boot_seconds(), self._time()
        if shown != self.shown:
            self.shown, self.deadline = shown, boot + (shown - wall)
        right = wall + self.deadline - boot
        if abs(right - self.shown) > DRIFT_SECONDS:
            os.utime(self.file, (right, right))
            self.shown = self._time()

    def release(self) -> None:
        """The file goes first: no valid lease is ever unlocked."""
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
    """The command of the job in a session of its own. It waits until it is told to go."""

    def __init__(self, task: Task, output: int, lease: HeldLease, close: tuple[int, ...]) -> None:
        self._task = task
        self.failure: str | None = None
        told, self._go = os.pipe()
        self._failed, failed = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                for descriptor in (self._go, self._failed, *close):
                    os.close(descriptor)
                self._become(told, failed, output, lease)
            finally:
                os._exit(NOT_EXECUTABLE)
        os.close(told)
        os.close(failed)
        self.ticks = start_ticks(self.pid)

    def _become(self, told: int, failed: int, output: int, lease: HeldLease) -> None:
        os.setsid()
        if os.read(told, 1) != b"g":
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
                signal.signal(signal.Signals[f"SIG{one}"], signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            if task.get("cpus"):
                with suppress(OSError):  # all of them were taken away meanwhile: it runs unbound
                    os.sched_setaffinity(0, task["cpus"])
            os.umask(task["umask"])
            os.chdir(task["folder"])
            os.execvpe(task["argv"][0], task["argv"], task["environment"])  # noqa: S606
        except OSError as error:
            missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
            where = task["argv"][0] if os.path.isdir(task["folder"]) else task["folder"]
            words = f"{where}: {error.strerror}"
            write_all(failed, words.encode(errors="replace")[:4000])
            write_all(2, f"andon: {words}\n".encode(errors="replace"))
            os._exit(NOT_FOUND if missing else NOT_EXECUTABLE)

    def go(self) -> None:
        """Start it; returns why it could not be started, or None."""
        os.write(self._go, b"g")
        os.close(self._go)
        said = os.read(self._failed, 4096)
        os.close(self._failed)
        self.failure = said.decode(errors="replace") if said else None

    def abandon(self) -> None:
        os.close(self._go)
        os.waitpid(self.pid, 0)

    def send(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def has_group(self) -> bool:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, 0)
            return True
        return False


class Supervision:
    """One attempt."""

    def __init__(self, task: Task, descriptors: list[int], channel: socket.socket) -> None:
        self.task, self.channel = task, channel
        self.job = task["job"]
        self.attempt = os.path.join(self.job, f"attempt-{task['attempt']}")
        self.lease = HeldLease(task, descriptors)
        self.reason = "exited"
        self.by: str | None = None
        self.kill_at: float | None = None
        self.started = self.began = 0.0
        self.output = -1
        self.asked = 0
        self.claimed = -1
        self.end_draft = os.path.join(self.attempt, f".end.{os.getpid()}")
        self.log_bytes = task.get("log_bytes") or 0
        self.checkpoint: list[float] | None = task.get("checkpoint")
        self.command: JobCommand
        self.is_claimed = False

    # Claiming.

    def claim(self) -> JobCommand:
        """Publish a locked and complete claim under a name that only one can have."""
        os.makedirs(self.attempt, mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self.output = os.open(os.path.join(self.attempt, OUTPUT), flags, 0o600)
        draft = os.path.join(self.attempt, f".claim.{os.getpid()}")
        self.claimed = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        command = None
        try:
            fcntl.flock(self.claimed, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.reserve_end()
            close = (self.claimed, self.channel.fileno())
            command = JobCommand(self.task, self.output, self.lease, close)
            said = {
                **self.task["claim"],
                "pid": os.getpid(),
                "start_ticks": start_ticks(os.getpid()),
                "group": command.pid,
                "group_ticks": command.ticks,
                "at": time.time(),
            }
            write_all(self.claimed, json.dumps(said).encode() + b"\n")
            os.fsync(self.claimed)
            os.link(draft, os.path.join(self.attempt, CLAIM))
        except BaseException:
            if command is not None:
                command.abandon()
            raise
        finally:
            os.unlink(draft)
        sync_folder(self.attempt)
        sync_folder(self.job)
        return command

    def reserve_end(self) -> None:
        with open(self.end_draft, "wb") as file:
            file.write(b" " * END_BYTES)

    # Running.

    def run(self) -> None:
        wake, signals = os.pipe()
        os.set_blocking(signals, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(signals, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self.ask)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        command = self.claim()
        self.command, self.is_claimed = command, True
        self.answer("claimed")
        kills, self.started, self.began = host_kills(), time.time(), boot_seconds()
        if self.is_cancelled():  # after the claim: whoever cancels looks at the claim afterwards
            command.abandon()
            self.reason = "cancelled"
            self.finish(None, kills)
            return
        self.lease.add_work(command.pid, command.ticks)
        if self.task.get("for_seconds") is not None:
            self.lease.begin(self.task["for_seconds"])
        command.go()
        if command.failure is not None:
            self.reason = "not_started"
        status = self.wait(wake)
        self.finish(status, kills)

    def answer(self, words: str) -> None:
        with suppress(OSError):  # the dispatcher has gone; the job goes on
            self.channel.sendall(words.encode() + b"\n")

    def ask(self, number: int, frame: object) -> None:
        self.asked += 1

    def is_cancelled(self) -> bool:
        note = note_in(os.path.join(self.job, "cancelled"))
        if note is None:
            return False
        self.by = note.get("by") or None
        return not note or note.get("attempt", 0) >= self.task["attempt"]

    def wait(self, wake: int) -> int:
        watched = select.poll()
        ended = os.pidfd_open(self.command.pid)
        watched.register(ended, select.POLLIN)
        watched.register(wake, select.POLLIN)
        while True:
            ready = dict(watched.poll(self.pause_seconds() * 1000))
            if wake in ready:
                os.read(wake, 4096)
            if ended in ready:
                break
            self.look()
        status = os.waitpid(self.command.pid, 0)[1]
        while self.kill_at is not None and self.command.has_group():
            if boot_seconds() >= self.kill_at:
                self.command.send(signal.SIGKILL)
                break
            time.sleep(0.05)
        return status

    def pause_seconds(self) -> float:
        """Until the next thing to do; a second at most."""
        now = boot_seconds()
        due = [now + CHECK_SECONDS]
        if self.kill_at is not None:
            due.append(self.kill_at)
        elif self.lease.deadline is not None:
            due.append(self.lease.deadline)
            if self.checkpoint is not None:
                due.append(self.lease.deadline - self.checkpoint[1])
        return max(0.0, min(due) - now) + 0.001

    def look(self) -> None:
        now = boot_seconds()
        if self.kill_at is not None and (now >= self.kill_at or self.asked > 1):
            self.command.send(signal.SIGKILL)
            self.kill_at = now + CHECK_SECONDS
        elif self.asked and self.kill_at is None:
            self.stop(self.why_asked())
        elif self.kill_at is None:
            self.lease.follow()
            self.keep_time(now)
        self.shorten_output()

    def keep_time(self, now: float) -> None:
        """The checkpoint's signal goes before the end, however little time there is."""
        if self.lease.deadline is None:
            return
        if self.checkpoint is not None and now >= self.lease.deadline - self.checkpoint[1]:
            number, self.checkpoint = self.checkpoint[0], None
            self.command.send(int(number))
        elif now >= self.lease.deadline:
            self.stop("time_limit")

    def why_asked(self) -> str:
        if self.is_cancelled():
            return "cancelled"
        again = note_in(os.path.join(self.job, "again")) or {}
        if again.get("attempt", 0) <= self.task["attempt"]:
            return "released"
        self.by = again.get("by") or None
        return "requeued"

    def stop(self, reason: str) -> None:
        """TERM to the group, then KILL; a stopped command handles the signal once it is resumed."""
        self.reason = reason
        self.kill_at = boot_seconds() + self.task["grace_seconds"]
        self.command.send(signal.SIGTERM)
        self.command.send(signal.SIGCONT)

    # Ending.

    def finish(self, status: int | None, kills: int) -> None:
        said = {
            "reason": self.reason,
            "started": self.started,
            "ended": time.time(),
            "seconds": max(0.0, boot_seconds() - self.began),
            "run": self.task["claim"].get("run"),
            "by": self.by,
            "host_kills": max(0, host_kills() - kills),
        }
        if status is not None:
            code = os.waitstatus_to_exitcode(status)
            said["exit_code"] = code if code >= 0 else 128 - code
            said["signal"] = -code if code < 0 else None
            said["message"] = self.command.failure
        data = json.dumps(said).encode()[:END_BYTES] + b"\n"
        self.clean()
        written = self.write_end(data)
        self.lease.release()
        until = boot_seconds() + RETRY_SECONDS
        while not written and boot_seconds() < until:
            time.sleep(1.0)
            written = self.write_end(data)
        self.ring()
        os.close(self.claimed)
        self.start_dispatcher()

    def clean(self) -> None:
        """Remove what a killed command left outside its session, such as a container."""
        argv = self.task.get("clean")
        if argv:
            with suppress(OSError):
                pid = os.posix_spawn(argv[0], argv, self.task["environment"], setsid=True)
                select.select([os.pidfd_open(pid)], [], [], CLEAN_SECONDS)
                os.waitpid(pid, os.WNOHANG)

    def write_end(self, data: bytes) -> bool:
        """Into the space that was reserved for it, then under its name."""
        try:
            descriptor = os.open(self.end_draft, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                write_all(descriptor, data)
                os.ftruncate(descriptor, len(data))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.rename(self.end_draft, os.path.join(self.attempt, END))
            sync_folder(self.attempt)
        except OSError:
            return False
        return True

    def ring(self) -> None:
        now = time.time_ns()
        with suppress(OSError):
            os.utime(self.task["bell"], ns=(now, now))

    def start_dispatcher(self) -> None:
        """Where none runs: it completes the record, and starts what waits. It inherits the lock."""
        start = self.task["dispatcher"]
        try:
            lock = os.open(start["lock"], os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # one runs
            return
        os.set_inheritable(lock, True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, start["log"], flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        os.chdir("/")
        with suppress(OSError):
            os.posix_spawn(
                start["argv"][0], [*start["argv"], str(lock)], start["environment"],
                file_actions=actions, setsid=True,
            )  # fmt: skip

    # The output.

    def shorten_output(self) -> None:
        """Keep the head and the tail of an output that has become too long."""
        size = os.fstat(self.output).st_size
        if not self.log_bytes or size <= self.log_bytes:
            return
        part = self.log_bytes // 4
        path = os.path.join(self.attempt, OUTPUT)
        words = f"\n[andon: {size - 2 * part} bytes left out here: jobs.log_megabytes]\n"
        with suppress(OSError), open(path, "r+b", buffering=0) as file:
            file.seek(size - part)
            tail = file.read() or b""
            file.truncate(part)
            write_all(self.output, words.encode() + tail)


def main() -> int:
    channel = socket.socket(fileno=os.dup(0))
    task, descriptors = receive(channel)
    if task is None:
        return 0
    supervisor = Supervision(task, descriptors, channel)
    try:
        supervisor.run()
    except FileExistsError:
        supervisor.answer("taken")
    except OSError as error:
        if supervisor.is_claimed:
            raise
        supervisor.answer(f"failed {error.strerror or error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
