"""Finds nvidia-smi and runs it for a bounded time, with a bounded answer."""

import os
import selectors
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from andon.errors import Unavailable

FOLDERS = ("usr/bin", "usr/lib/wsl/lib", "usr/local/nvidia/bin")
"""Where it may lie although PATH does not say so: WSL, and images for Kubernetes."""
LIMIT_BYTES = 16 << 20  # eight devices write a quarter of a megabyte
DYING_SECONDS = 0.5


class NoAnswer(Unavailable):
    """It runs and does not answer: the driver hangs, and may come back."""


@dataclass(frozen=True, slots=True)
class Output:
    """What it printed, and how it ended."""

    code: int
    text: str
    errors: str = ""

    @property
    def everything(self) -> str:
        return f"{self.text}\n{self.errors}"


def find(command: str, root: Path) -> str:
    """Where the command lies."""
    folders = os.pathsep.join(str(root / folder) for folder in FOLDERS)
    found = shutil.which(command)
    if found is None and "/" not in command:
        found = shutil.which(command, path=folders)
    if found is None:
        raise Unavailable(
            "nvidia-smi was not found",
            hint="no NVIDIA driver is installed here, or its folder is missing in PATH",
        )
    return found


class SmiCommand:
    """Runs it, one call at a time. A call that cannot even be killed is left behind."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._allowed_seconds = self._deadline = 0.0
        self._stuck: subprocess.Popen[bytes] | None = None

    def allow(self, seconds: float) -> None:
        """The time for the calls that follow, all of them together."""
        self._allowed_seconds, self._deadline = seconds, time.monotonic() + seconds

    def run(self, *arguments: str) -> Output:
        """Its answer, or NoAnswer."""
        self._refuse_while_stuck()
        process = self._start(arguments)
        try:
            out, errors = _collect(process, self._deadline)
        except TimeoutError as exc:
            self._end(process)
            raise NoAnswer(
                f"nvidia-smi has not answered for {self._allowed_seconds:g} s",
                hint="the driver hangs: see `sudo dmesg | grep -i -e xid -e nvrm`",
            ) from exc
        except BaseException:
            self._end(process)
            raise
        finally:
            _close(process)
        return Output(
            process.returncode, out.decode(errors="replace"), errors.decode(errors="replace")
        )

    def _start(self, arguments: tuple[str, ...]) -> "subprocess.Popen[bytes]":
        try:
            # A session of its own, so that whatever it starts can be ended with it.
            return subprocess.Popen(
                [self._path, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C"},
            )
        except OSError as exc:
            reason = f"nvidia-smi cannot be started: {exc.strerror}"
            raise Unavailable(reason, hint=f"look at it: ls -l {self._path}") from exc

    def _refuse_while_stuck(self) -> None:
        """One in the kernel's hands is enough: a second would only join it."""
        if self._stuck is None or self._stuck.poll() is not None:
            self._stuck = None
            return
        raise NoAnswer(
            f"an earlier nvidia-smi (pid {self._stuck.pid}) is stuck in the kernel",
            hint="see `sudo dmesg`; only a reboot may end it",
        )

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(DYING_SECONDS)
        except subprocess.TimeoutExpired:
            self._stuck = process


def _collect(process: "subprocess.Popen[bytes]", deadline: float) -> tuple[bytes, bytes]:
    """Both of its outputs to their ends, and the end of itself."""
    assert process.stdout is not None
    assert process.stderr is not None
    texts = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as selector:
        for descriptor in texts:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(_left(deadline)):
                piece = os.read(key.fd, 1 << 16)
                texts[key.fd] += piece
                if not piece:
                    selector.unregister(key.fd)
            if sum(map(len, texts.values())) > LIMIT_BYTES:
                raise Unavailable(f"nvidia-smi printed more than {LIMIT_BYTES >> 20} MiB")
    try:
        process.wait(_left(deadline))
    except subprocess.TimeoutExpired as exc:
        raise TimeoutError from exc
    out, errors = texts.values()
    return bytes(out), bytes(errors)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _close(process: "subprocess.Popen[bytes]") -> None:
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
