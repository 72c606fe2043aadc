"""Starts reader processes, one of them in advance: it takes as long to start as its parent."""

import math
import os
import select
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from andon.host.interpreter import module_environment, process_command
from andon.model.request import UNDECIDED

if TYPE_CHECKING:  # a reader that is forked goes without it
    import subprocess

PASSES_DESCRIPTORS = os.name == "posix"
SIGKILL = 9  # as in `signal`, whose enumerations take longer to make than a reader to end
POLL_SECONDS = 0.002


class Spawned:
    """A reader process with our ends of its pipes and its standard error.

    A new process, or with `fork` a copy of this one, which has most of a reader's modules loaded
    already: only for a process that has one thread and no driver of its own.
    """

    process: "subprocess.Popen[bytes] | ForkedProcess"
    decided: tuple[str, str] | None = None
    """The backend and the options that a reader started in advance was given since."""

    def __init__(self, *arguments: str, fork: bool = False) -> None:
        with ExitStack() as opened:  # out of descriptors, none of the earlier ones may stay open
            (requests, self.requests), (self.answers, answers), (nudges, self.nudges) = (
                _pipe(opened) for _ in range(3)
            )
            self.errors = _nameless_file()
            opened.pop_all()
        try:
            if fork:
                self.process = ForkedProcess(
                    os.fork() or _become_reader(requests, answers, self.errors.fileno(), nudges)
                )
            else:
                self.process = _executed(requests, answers, self.errors, nudges, arguments)
        except OSError:
            self.forget()
            raise
        finally:
            for theirs in (requests, answers, nudges):
                os.close(theirs)

    def forget(self) -> None:
        """Closes our ends of its pipes only: in a forked child it belongs to the parent."""
        for name in ("requests", "answers", "nudges"):
            descriptor = getattr(self, name)
            if descriptor >= 0:
                setattr(self, name, -1)
                os.close(descriptor)
        self.errors.close()


class ForkedProcess:
    """The part of Popen's interface that is used, for a process that was forked."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Returns its exit code, once it has ended."""
        if self.returncode is None:
            try:
                ended, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # SIGCHLD is ignored here: the kernel keeps no exit code
                ended, status = self.pid, 0
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, SIGKILL)

    def wait(self, timeout: float = math.inf) -> int:
        """Returns its exit code; polls where the kernel has nothing to wait for."""
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                import subprocess

                raise subprocess.TimeoutExpired("andon.drivers.reader", timeout)
            time.sleep(POLL_SECONDS)
        return code


def _executed(
    requests: int, answers: int, errors: BinaryIO, nudges: int, arguments: tuple[str, ...]
) -> "subprocess.Popen[bytes]":
    import subprocess

    command = process_command("reader", *arguments, site=False)
    if PASSES_DESCRIPTORS:
        command.append(str(nudges))
    # In its own session: Ctrl-C at a terminal is for the command, not for the reader.
    return subprocess.Popen(
        command,
        stdin=requests,
        stdout=answers,
        stderr=errors,
        env=module_environment(),
        start_new_session=True,
        pass_fds=(nudges,) if PASSES_DESCRIPTORS else (),
    )


def _become_reader(requests: int, answers: int, errors: int, nudges: int) -> NoReturn:
    """Runs the reader in the forked child, which keeps only the command's loaded modules."""
    try:
        os.setsid()
        for theirs, standard in ((requests, 0), (answers, 1), (errors, 2)):
            os.dup2(theirs, standard)
        os.closerange(3, nudges)
        # All of them: the lock of a lease may be among what the command inherited.
        os.closerange(nudges + 1, os.sysconf("SC_OPEN_MAX"))
        with suppress(OSError):
            Path("/proc/self/comm").write_text("andon-reader")
        from andon.drivers.reader import main

        main([UNDECIDED, str(nudges)])
    except BaseException:  # noqa: BLE001 - it must never return into the command
        sys.excepthook(*sys.exc_info())
    os._exit(1)


_ahead: list[Spawned] = []


def start_ahead(fork: bool = False) -> None:
    """Starts a reader before it is known what it will read; the first request uses it.

    If it is never needed it ends with this process, because its standard input is closed.
    """
    if fork:
        from andon.drivers.reader import SIMULATES  # once for both of them

        if os.environ.get(SIMULATES):
            import andon.drivers.sim.backend  # noqa: F401 - likewise
    try:
        _ahead.append(Spawned(UNDECIDED, fork=fork and hasattr(os, "fork")))
    except OSError:
        return  # whoever needs one tries again, and reports the reason


def decide_ahead(backend: str, options: str) -> None:
    """Lets the reader started in advance open the backend that will most likely be needed."""
    with suppress(OSError):  # it has exited: whoever needs one finds out
        for spawned in _ahead:
            os.write(spawned.requests, f"{backend} {options}\n".encode())
            spawned.decided = (backend, options)


def take(backend: str, options: str) -> Spawned:
    """Returns a reader for this backend: the one started in advance, or a new one."""
    if not _ahead or _ahead[-1].decided not in (None, (backend, options)):
        return Spawned(backend, options)
    if _ahead[-1].decided is None:
        decide_ahead(backend, options)
    spawned = _ahead.pop()
    if spawned.decided is None:  # it has exited: a new one will report the reason
        spawned.forget()
        return Spawned(backend, options)
    return spawned


def wait_for(process: "subprocess.Popen[bytes] | ForkedProcess", seconds: float) -> None:
    """Waits until the process exits or the time is over; a pidfd avoids Popen's polling."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        import subprocess

        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return
    try:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        ended.poll(seconds * 1000)
    finally:
        os.close(descriptor)
    process.poll()


def _pipe(opened: ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        opened.callback(os.close, end)
    return ends


def _nameless_file() -> BinaryIO:
    """Opens a nameless file, in memory if possible: error output must not depend on a full disk."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("andon-reader"), "r+b")
    from tempfile import TemporaryFile

    return TemporaryFile()
