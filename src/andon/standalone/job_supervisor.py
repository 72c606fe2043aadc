"""Runs one attempt of a job: claims it, starts its command, waits, and writes how it ended.

It runs by itself, without andon, so that it is small and an upgrade does not affect a running job;
it imports two modules next to it. Its standard input is a socket: the dispatcher sends what to do
and the locked files of the lease. Without that it exits, and nothing has started.
"""

# ruff: noqa: PTH103, PTH104, PTH108, PTH118, PTH123
# pathlib takes longer to import than all of this

from __future__ import annotations

import errno
import fcntl
import os
import select
import time

TYPE_CHECKING = False  # `typing` takes longer to import than the rest
if TYPE_CHECKING:
    import signal
    import socket
    from contextlib import suppress

    from andon.standalone.quick_parts import (
        dumps,
        dumps_within,
        loads,
        read_most,
        receive_descriptors,
    )
    from andon.standalone.supervised_work import (
        HeldLease,
        JobCommand,
        Task,
        boot_seconds,
        start_ticks,
        write_all,
    )
else:  # from beside this file, which is last on the path
    import _socket as socket

    from quick_parts import (
        dumps,
        dumps_within,
        loads,
        read_most,
        receive_descriptors,
        signal,
        suppress,
    )
    from supervised_work import HeldLease, JobCommand, Task, boot_seconds, start_ticks, write_all

CLAIM, OUTPUT, END, ADOPTED = "claim", "output.log", "end.json", "adopted"
LOCK_TRIES, LOCK_SECONDS = 100, 0.02  # a test of a lock holds it for a moment
CHECK_SECONDS = 1.0  # how often the lease's end and the size of the output are checked
GROUP_SECONDS = 0.1  # the same for processes that outlive the command that was asked to end
END_BYTES = 4096  # reserved for the end, which must fit on a disk that has become full
CLEAN_SECONDS = 60.0  # how long removing a container may take, before it is tried again
CLEAN_PAUSE_SECONDS = 5.0
NOT_REMOVED = (
    "andon: its container cannot be removed and may still run: its GPUs are kept until it can\n"
)
RETRY_SECONDS = 600.0  # how long writing the end is tried, unless someone deleted the job
MEANWHILE_BYTES = 1_000_000  # of the output, written while its end is read
FIRST_BYTES = 8  # of a message: its length


def host_kills() -> int:
    """Returns how many processes the kernel's OOM killer has killed since boot."""
    with suppress(OSError, ValueError), open("/proc/vmstat", encoding="ascii") as file:
        for line in file:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def receive(channel: socket.socket) -> tuple[Task | None, list[int]]:
    """Returns the task, and the descriptors of the lease; None if the dispatcher has gone."""
    data, descriptors = receive_descriptors(channel, 65536, 2)
    while data and (len(data) < FIRST_BYTES or _lacks(data)):
        piece = channel.recv(65536)
        if not piece:
            return None, descriptors
        data += piece
    return (loads(data[FIRST_BYTES:]), descriptors) if data else (None, descriptors)


def _lacks(data: bytes) -> bool:
    """Whether the rest of a message is still to come."""
    return len(data) < FIRST_BYTES + int.from_bytes(data[:FIRST_BYTES], "big")


def sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    with suppress(OSError):  # some file systems cannot
        os.fsync(descriptor)
    os.close(descriptor)


def note_in(path: str) -> Task | None:
    """Reads a small file of the job, such as `cancelled`; None if there is none."""
    try:
        with open(path, "rb") as file:
            note = loads(file.read(65536))
        return note if isinstance(note, dict) else {}
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {}


class Supervision:
    """Supervises one attempt of a job."""

    def __init__(self, task: Task, descriptors: list[int], channel: socket.socket) -> None:
        self.task, self.channel = task, channel
        self.job = task["job"]
        self.attempt = os.path.join(self.job, f"attempt-{task['attempt']}")
        self.lease = HeldLease(task, descriptors)
        self.reason = "exited"
        self.by: str | None = None
        self.save_until: float | None = None  # what a command has to write its checkpoint
        self.kill_at: float | None = None
        self.started = self.began = 0.0
        self.output = -1
        self.requests = self.handled = 0  # requests to end, and how many of them it acted on
        self.claimed = -1
        self.end_draft = os.path.join(self.attempt, f".end.{os.getpid()}")
        self.log_bytes = task.get("log_bytes") or 0
        self.left_out = self.note_bytes = 0
        self.checkpoint: list[float] | None = task.get("checkpoint")
        self.command: JobCommand
        self.is_claimed = False

    # Claiming.

    def claim(self) -> JobCommand:
        """Publishes a locked and complete claim under a name that only one supervisor can have."""
        os.makedirs(self.attempt, mode=0o700, exist_ok=True)
        self.open_output()
        draft = os.path.join(self.attempt, f".claim.{os.getpid()}")
        self.claimed = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        command = None
        try:
            fcntl.flock(self.claimed, fcntl.LOCK_EX | fcntl.LOCK_NB)
            command = self.prepare()
            claim = {**self.task["claim"], **self.processes(command), "at": time.time()}
            write_all(self.claimed, dumps(claim).encode() + b"\n")
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

    def take_over(self) -> JobCommand:
        """Locks the claim of a supervisor that was killed, and writes which process replaces it."""
        self.open_output()
        self.claimed = os.open(os.path.join(self.attempt, CLAIM), os.O_RDWR)
        for _ in range(LOCK_TRIES):
            with suppress(BlockingIOError):
                fcntl.flock(self.claimed, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(LOCK_SECONDS)
        else:
            raise FileExistsError(errno.EEXIST, "another supervisor has it")
        if os.access(os.path.join(self.attempt, END), os.F_OK):
            raise FileExistsError(errno.EEXIST, "it has ended")
        command = self.prepare()
        try:
            draft = os.path.join(self.attempt, f".{ADOPTED}.{os.getpid()}")
            with open(draft, "wb") as file:
                file.write(dumps(self.processes(command)).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            os.rename(draft, os.path.join(self.attempt, ADOPTED))
        except BaseException:
            command.abandon()
            raise
        return command

    def open_output(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self.output = os.open(os.path.join(self.attempt, OUTPUT), flags, 0o600)

    def prepare(self) -> JobCommand:
        with open(self.end_draft, "wb") as file:
            file.write(b" " * END_BYTES)
        close = (self.claimed, self.channel.fileno())
        return JobCommand(self.task, self.output, self.lease, close)

    def processes(self, command: JobCommand) -> Task:
        return {
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "group": command.pid,
            "group_ticks": command.ticks,
        }

    # Running.

    def run(self) -> None:
        wake, signals = os.pipe()
        os.set_blocking(signals, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(signals, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self.ask)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        since = self.task.get("adopt")  # when the attempt began that another one had claimed
        command = self.claim() if since is None else self.take_over()
        self.command, self.is_claimed = command, True
        self.answer("claimed")
        kills, self.started, self.began = host_kills(), time.time(), boot_seconds()
        if since is not None:
            self.began -= max(0.0, self.started - since)
            self.started = since
        if self.is_cancelled():  # after the claim: whoever cancels reads the claim afterwards
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

    def answer(self, text: str) -> None:
        with suppress(OSError):  # the dispatcher has gone; the job goes on
            self.channel.sendall(text.encode() + b"\n")

    def ask(self, number: int, frame: object) -> None:
        self.requests += 1

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
            self.check()
        status = os.waitpid(self.command.pid, 0)[1]
        if self.save_until is not None and self.kill_at is None:
            self.stop(self.reason)  # what the command left in its group
        while self.kill_at is not None and self.command.has_group():
            if boot_seconds() >= self.kill_at:
                self.command.send(signal.SIGKILL)
                break
            time.sleep(GROUP_SECONDS)
        return status

    def pause_seconds(self) -> float:
        """Returns the time until the next step; a second at most."""
        now = boot_seconds()
        due = [now + CHECK_SECONDS]
        if self.kill_at is not None:
            due.append(self.kill_at)
        elif self.save_until is not None:
            due.append(self.save_until)
        elif self.lease.deadline is not None:
            due.append(self.lease.deadline)
            if self.checkpoint is not None:
                due.append(self.lease.deadline - self.checkpoint[1])
        return max(0.0, min(due) - now) + 0.001

    def check(self) -> None:
        now = boot_seconds()
        if self.kill_at is not None and (now >= self.kill_at or self.requests > self.handled):
            self.command.send(signal.SIGKILL)
            self.handled, self.kill_at = self.requests, now + CHECK_SECONDS
        elif self.requests > self.handled and self.kill_at is None:
            self.handled = self.requests
            self.end_on_request(self.end_reason())
        elif self.save_until is not None and self.kill_at is None:
            if now >= self.save_until:
                self.stop(self.reason)
        elif self.kill_at is None:
            self.lease.follow()
            self.keep_time(now)
        self.shorten_output()

    def keep_time(self, now: float) -> None:
        """Sends the checkpoint's signal and ends the job when its time is up; the signal is sent
        first, however little time is left."""
        if self.lease.deadline is None:
            return
        if self.checkpoint is not None and now >= self.lease.deadline - self.checkpoint[1]:
            number, self.checkpoint = self.checkpoint[0], None
            self.command.send(int(number))
        elif now >= self.lease.deadline:
            self.stop("time_limit")

    def end_reason(self) -> str:
        if self.is_cancelled():
            return "cancelled"
        again = note_in(os.path.join(self.job, "again")) or {}
        if again.get("attempt", 0) <= self.task["attempt"]:
            return "released"
        self.by = again.get("by") or None
        return "requeued"

    def end_on_request(self, reason: str) -> None:
        """Ends the command on request. A job that is queued again first gets its checkpoint's
        signal and time; a second request ends it at once."""
        if reason != "requeued" or self.checkpoint is None:
            self.stop(reason)
            return
        (number, seconds), self.checkpoint = self.checkpoint, None
        self.reason = reason
        self.save_until = boot_seconds() + seconds
        if self.lease.deadline is not None:
            self.save_until = min(self.save_until, self.lease.deadline)
        self.command.send(int(number))
        self.command.send(signal.SIGCONT)

    def stop(self, reason: str) -> None:
        """Sends TERM to the group, then KILL; a stopped command handles it once it is resumed."""
        self.reason = reason
        self.kill_at = boot_seconds() + self.task["grace_seconds"]
        self.command.send(signal.SIGTERM)
        self.command.send(signal.SIGCONT)

    # Ending.

    def finish(self, status: int | None, kills: int) -> None:
        end = {
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
            end["exit_code"] = code if code >= 0 else 128 - code
            end["signal"] = -code if code < 0 else None
            end["message"] = self.command.failure
        data = dumps_within(end, "message", END_BYTES)
        self.clean()
        self.shorten_output()
        written = self.write_end(data)
        self.lease.release()
        until = boot_seconds() + RETRY_SECONDS
        while not written and boot_seconds() < until and os.fstat(self.output).st_nlink:
            time.sleep(1.0)
            written = self.write_end(data)
        self.ring()
        os.close(self.claimed)
        self.start_dispatcher()

    def clean(self) -> None:
        """Removes what a killed command left outside its session: a container. The lease is held
        while that may still run."""
        argv, is_noted = self.task.get("clean"), False
        while argv and not self.is_clean(argv):
            if not is_noted:
                is_noted = True
                with suppress(OSError):
                    write_all(self.output, NOT_REMOVED.encode())
            time.sleep(CLEAN_PAUSE_SECONDS)

    def is_clean(self, argv: list[str]) -> bool:
        with suppress(OSError):
            pid = os.posix_spawn(argv[0], argv, self.task["environment"], setsid=True)
            descriptor = os.pidfd_open(pid)
            if not select.select([descriptor], [], [], CLEAN_SECONDS)[0]:
                os.killpg(pid, signal.SIGKILL)
            os.close(descriptor)
            return os.waitpid(pid, 0)[1] == 0
        return False

    def write_end(self, data: bytes) -> bool:
        """Writes the end into the space reserved for it, then renames the file."""
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
        """Starts a dispatcher if none runs: it completes the record, and starts waiting jobs. It
        inherits the lock."""
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
        """Keeps only the head and the tail of an output that has become too long."""
        size = os.fstat(self.output).st_size
        if not self.log_bytes or size <= self.log_bytes:
            return
        part = self.log_bytes // 4
        # By its descriptor: someone may have deleted the file, which goes on taking space.
        path = f"/proc/self/fd/{self.output}"
        with suppress(OSError), open(path, "r+b", buffering=0) as file:
            file.seek(size - part)
            tail = read_most(file.read, part + MEANWHILE_BYTES)
            left = os.fstat(self.output).st_size - part - len(tail)
            file.truncate(part)
            self.left_out += left - self.note_bytes  # the earlier note is left out, too
            note = f"\n[andon: {self.left_out} bytes left out here: jobs.log_megabytes]\n".encode()
            self.note_bytes = len(note)
            write_all(self.output, note + tail)


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
