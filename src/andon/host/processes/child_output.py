"""Runs a command and reads both of its outputs at once, within a time and a size."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from andon.host.files import wait_readable

MOST_BYTES = 16 << 20
_PIECE_BYTES = 1 << 16
PR_SET_PDEATHSIG = 1


class OutputTooLong(OSError):
    """Raised if a process prints more than any answer has."""

    def __init__(self) -> None:
        super().__init__(0, f"it printed more than {MOST_BYTES >> 20} MiB")


def die_with_parent() -> Callable[[], None] | None:
    """Returns a function to call first in a child process, so that the kernel kills it with its
    parent. It is one call into libc, found before the fork; Windows has none."""
    if sys.platform == "win32":
        return None
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    return lambda: None if prctl is None else prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@cache
def dying_with_parent() -> tuple[tuple[str, ...], Callable[[], None] | None]:
    """Returns a prefix that makes a command end with this process or, if there is none, the
    function to call first. For many commands a prefix is better: forking this process for each
    costs five times as much."""
    prefix = ("setpriv", "--pdeathsig", "KILL")
    with suppress(OSError):
        if subprocess.run((*prefix, "true"), capture_output=True, check=False).returncode == 0:
            return prefix, None
    return (), die_with_parent()


def ask_command(
    command: Sequence[str],
    seconds: float,
    text: str = "",
    environment: Mapping[str, str] | None = None,
    outlives: bool = False,
) -> tuple[int, str, str]:
    """Runs a command with `text` as its input; returns exit code, output and error output. Raises
    TimeoutError after that time, having killed the whole session; OutputTooLong and other OSError
    if it cannot be run. It dies with this process unless it `outlives` it: a command that gives up
    by itself starts in a fraction of the time."""
    until = time.monotonic() + seconds
    with _given(text) as given:
        process = subprocess.Popen(
            command,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # so that Ctrl-C does not reach it
            preexec_fn=None if outlives else die_with_parent(),
        )
    with process:
        try:
            out, error = read_outputs(process, until)
        except BaseException:
            kill_session(process)
            raise
    return process.returncode, out.decode(errors="replace"), error.decode(errors="replace")


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kills a process that leads a session, and all in it; on Windows only the process."""
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


def _given(text: str) -> IO[bytes]:
    """Returns a file with this text: a pipe would block on a command that does not read it."""
    if not text:
        return Path(os.devnull).open("rb")
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("input"), "w+b")
    else:
        file = TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(text.encode("utf-8", "surrogateescape"))
    file.seek(0)
    return file


class Printed:
    """What a process has printed so far, on both of its outputs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.out, self.error = bytearray(), bytearray()
        assert process.stdout is not None
        assert process.stderr is not None
        self._into = {process.stdout.fileno(): self.out, process.stderr.fileno(): self.error}

    @property
    def open(self) -> bool:
        """Whether more output may come."""
        return bool(self._into)

    @property
    def too_long(self) -> bool:
        return len(self.out) + len(self.error) > MOST_BYTES

    def read(self, seconds: float) -> bool:
        """Waits so long at most; returns whether it has printed more or closed an output."""
        ready = wait_readable(self._into, seconds)
        for pipe in ready:
            piece = os.read(pipe, _PIECE_BYTES)
            self._into[pipe].extend(piece)
            if not piece:
                del self._into[pipe]
        return bool(ready)


def read_outputs(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes]:
    """Reads both outputs to their ends, and waits for its exit. Raises TimeoutError at the
    deadline, which is monotonic time, and OutputTooLong; the caller must then end the process."""
    printed = Printed(process)
    while printed.open:
        printed.read(_left(deadline))
        if printed.too_long:
            raise OutputTooLong
    try:
        process.wait(_left(deadline))
    except subprocess.TimeoutExpired as exc:
        raise TimeoutError from exc
    return bytes(printed.out), bytes(printed.error)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
