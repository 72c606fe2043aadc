"""Starts a cluster's job on its node: `cluster_start.py VERSION TASK JOB CMD…`, with -P.

A node whose andon has another version, or cannot be imported, runs the command alone.
"""

import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

NOT_EXECUTABLE, NOT_FOUND = 126, 127
PACKAGE = Path(__file__).parent.parent


def run_alone(command: tuple[str, ...], why: str) -> NoReturn:
    """Runs the command in place of this process; ends as a shell does if it cannot be started."""
    node = os.uname().nodename
    report(f"no record of this job: {node} does not have the andon that submitted it ({why})")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - as given
    except OSError as error:
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        report(f"{command[0]}: {'command not found' if missing else error.strerror}")
        sys.exit(NOT_FOUND if missing else NOT_EXECUTABLE)


def report(text: str) -> None:
    with suppress(OSError):  # the job runs even if stderr is closed
        print(f"andon: {text}", file=sys.stderr, flush=True)


def main(version: str, task: str, job: str, *command: str) -> int:
    if f'"{version}"' not in (PACKAGE / "version.py").read_text(encoding="utf-8"):
        run_alone(command, "it has another version")
    sys.path.append(str(PACKAGE.parent))
    try:
        recorded = import_module("andon.app.cluster_job").main
    except ImportError as error:
        run_alone(command, str(error))
    return int(recorded((task, job, *command)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
