"""`andon run --nsys`: Nsight Systems around the command, and where its report goes."""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from andon.doctor.inspection.machine import counters_restricted, may_profile
from andon.doctor.rules.driver import COUNTERS_FOR_ROOT
from andon.errors import Denied, Unavailable
from andon.host.files import make_private
from andon.runs.header import record_path

REPORT = ".nsys-rep"
PARAM = "nsys_report"
"""The name under which the record has the path of the report."""


class ProfiledCommand(Struct, frozen=True):
    """The command with Nsight Systems around it, and the report that it will write."""

    argv: tuple[str, ...]
    report: Path


def profiled(
    command: Sequence[str], options: Sequence[str], folder: Path, name: str
) -> ProfiledCommand:
    """Returns the command to run; raises with what to do where it cannot be profiled."""
    nsys = shutil.which("nsys")
    if nsys is None:
        hint = "install Nsight Systems (nsight-systems-cli), or leave out --nsys"
        raise Unavailable("nsys is not installed", hint=hint)
    _check_counters()

    make_private(folder)
    report = record_path(folder, name, time.time()).with_suffix(REPORT)
    argv = (nsys, "profile", f"--output={report}", *options, *command)
    return ProfiledCommand(argv, report)


def _check_counters() -> None:
    if counters_restricted() and not may_profile():
        raise Denied(COUNTERS_FOR_ROOT, hint="andon doctor says what to do")
