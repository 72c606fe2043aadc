"""Runs a command that answers: within a time, and with an answer of bounded size."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

from andon.host.processes.child_output import read_outputs

PR_SET_PDEATHSIG = 1
_prctl = getattr(ctypes.CDLL(None), "prctl", None)


def _die_with_parent() -> None:
    """A client that hangs would outlive a process that is killed while it waits for an answer."""
    if _prctl is not None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def ask_command(command: Sequence[str], seconds: float) -> tuple[int, str, str]:
    """Exit code, output and error output. TimeoutError after that time, with its whole session
    killed; OutputTooLong and other OSError where it cannot be run. It dies with this process."""
    until = time.monotonic() + seconds
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # so that Ctrl-C does not reach it
        preexec_fn=_die_with_parent,  # one call into libc, found before the fork
    )
    with process:
        try:
            out, said = read_outputs(process, until)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, out.decode(errors="replace"), said.decode(errors="replace")
