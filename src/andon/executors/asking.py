"""Runs a command that answers: within a time, and with an answer of bounded size."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

from andon.child_output import read_outputs


def ask_command(command: Sequence[str], seconds: float) -> tuple[int, str, str]:
    """Exit code, output and error output. TimeoutError after that time, with its whole session
    killed; OutputTooLong and other OSError where it cannot be run."""
    until = time.monotonic() + seconds
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # so that Ctrl-C does not reach it
    )
    with process:
        try:
            out, said = read_outputs(process, until)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, out.decode(errors="replace"), said.decode(errors="replace")
