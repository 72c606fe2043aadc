"""Finds nvidia-smi and runs it with a time and output limit."""

import os
import shutil
import subprocess
import time
from pathlib import Path

from msgspec import Struct

from andon.errors import Unavailable
from andon.host.processes.child_output import (
    MOST_BYTES,
    OutputTooLong,
    kill_session,
    read_outputs,
)
from andon.model.device import FaultCode
from andon.units import sh

FOLDERS = ("usr/bin", "usr/lib/wsl/lib", "usr/local/nvidia/bin")
"""Folders outside PATH where it may be: WSL, and images for Kubernetes."""
DYING_SECONDS = 0.5


class NoAnswer(Unavailable):
    """Raised if nvidia-smi runs but does not respond: the driver hangs, and may recover."""


class Output(Struct, frozen=True):
    """The command's output and exit code."""

    code: int
    text: str
    errors: str = ""

    @property
    def everything(self) -> str:
        return f"{self.text}\n{self.errors}"


def find(command: str, root: Path) -> str:
    """Returns the path of the command."""
    folders = os.pathsep.join(str(root / folder) for folder in FOLDERS)
    found = shutil.which(command)
    if found is None and "/" not in command:
        found = shutil.which(command, path=folders)
    if found is None:
        raise Unavailable(
            "nvidia-smi was not found",
            hint="no NVIDIA driver is installed, or its folder is not in PATH",
            cause=FaultCode.NO_DRIVER,
        )
    return found


class SmiCommand:
    """Runs nvidia-smi, one call at a time. A call that cannot be killed is left behind."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._allowed_seconds = self._deadline = 0.0
        self._stuck: subprocess.Popen[bytes] | None = None

    def allow(self, seconds: float) -> None:
        """Sets the timeout for all following calls together."""
        self._allowed_seconds, self._deadline = seconds, time.monotonic() + seconds

    def run(self, *arguments: str) -> Output:
        """Runs nvidia-smi and returns its output; raises NoAnswer on a timeout."""
        self._refuse_while_stuck()
        process = self._start(arguments)
        try:
            out, errors = read_outputs(process, self._deadline)
        except TimeoutError as exc:
            self._end(process)
            raise NoAnswer(
                f"nvidia-smi has not responded for {self._allowed_seconds:g} s",
                hint="the driver hangs: see `sudo dmesg | grep -i -e xid -e nvrm`",
            ) from exc
        except OutputTooLong as exc:
            self._end(process)
            raise Unavailable(f"nvidia-smi printed more than {MOST_BYTES >> 20} MiB") from exc
        except BaseException:
            self._end(process)
            raise
        finally:
            _close(process)
        return Output(
            process.returncode, out.decode(errors="replace"), errors.decode(errors="replace")
        )

    def _start(self, arguments: tuple[str, ...]) -> subprocess.Popen[bytes]:
        try:
            # In its own session, so that its children can be killed with it.
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
            raise Unavailable(reason, hint=f"check it: ls -l {sh(self._path)}") from exc

    def _refuse_while_stuck(self) -> None:
        """Refuses to start while a call is stuck: a second would get stuck too."""
        if self._stuck is None or self._stuck.poll() is not None:
            self._stuck = None
            return
        raise NoAnswer(
            f"an earlier nvidia-smi (pid {self._stuck.pid}) is stuck in the kernel",
            hint="see `sudo dmesg`; a reboot may be needed to end it",
        )

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        kill_session(process)
        try:
            process.wait(DYING_SECONDS)
        except subprocess.TimeoutExpired:
            self._stuck = process


def _close(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
