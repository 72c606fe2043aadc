"""What is known where a job is submitted: folder, user, masks, clocks, the commit of the folder."""

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from andon.errors import Invalid
from andon.host.clock import boot_seconds
from andon.kernel_files import read
from andon.model.job.spec import JobSpec
from andon.model.work import DeviceRequest

GIT_SECONDS = 0.3
_COMMIT = re.compile(rb"[0-9a-f]{40,64}\n")
_MASK = re.compile("VISIBLE_DEVICES|DEVICE_ORDINAL|AFFINITY_MASK|SLURM_")
"""Names that may be masks; the table of all takes longer to import than this takes."""
SHOWN = ("CUDA_VISIBLE_DEVICES", "CONDA_DEFAULT_ENV", "VIRTUAL_ENV")
"""Variables that may be shown of any job."""


class CommitQuestion:
    """Asks for the commit of a folder beside other work."""

    def __init__(self, folder: str) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._process = subprocess.Popen(
                ["git", "--no-optional-locks", "rev-parse", "--verify", "HEAD"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )

    def answer(self) -> str | None:
        """None where there is none, or it takes too long."""
        if self._process is None:
            return None
        try:
            said, _ = self._process.communicate(timeout=GIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return None
        return said.decode().strip() if _COMMIT.fullmatch(said) else None


def here_spec(
    argv: Sequence[str],
    request: DeviceRequest,
    *,
    name: str = "",
    folder: str = "",
    environment: Mapping[str, str] | None = None,
    git: bool = True,
    **more: Any,
) -> JobSpec:
    """A job of this process's user, folder and environment; `more` are fields of JobSpec."""
    place = folder or _current_folder()
    asked = CommitQuestion(place) if git else None
    variables = dict(os.environ if environment is None else environment)
    if request.least < 1:
        raise Invalid("a job needs at least one GPU", hint="request 1 GPU or more")
    spec = JobSpec(
        number=0,
        name=name or name_of(argv),
        argv=tuple(argv),
        folder=place,
        request=request,
        submitted_at=time.time(),
        user=_user(),
        umask=_umask(),
        environment=variables,
        shown=tuple(one for one in SHOWN if one in variables),
        masks=_masks(variables),
        scenario=variables.get("ANDON_SIMULATE_SCENARIO", ""),
        boot=_boot(),
        submitted_boot_seconds=boot_seconds(),
        **more,
    )
    from dataclasses import replace

    return spec if asked is None else replace(spec, git_commit=asked.answer())


def name_of(argv: Sequence[str]) -> str:
    """The script's name rather than its interpreter's."""
    words = [os.path.basename(word) for word in argv[:2]]  # noqa: PTH119 - only a name
    if words[0].startswith("python") and len(words) > 1 and not words[1].startswith("-"):
        return _text(words[1])
    return _text(words[0]) or "job"


def _text(word: str) -> str:
    return word.encode(errors="replace").decode()[:200]


def _current_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - a string is stored
    except OSError as exc:
        raise Invalid(
            "the current folder no longer exists", hint="change to the folder of the job"
        ) from exc


def _masks(variables: Mapping[str, str]) -> dict[str, str]:
    """Those of a lease that this process runs on say nothing about later."""
    if "ANDON_LEASE" in variables or not any(map(_MASK.search, variables)):
        return {}
    from andon.core.sampling.masks import VARIABLES

    return {name: variables[name] for name in VARIABLES if name in variables}


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except (KeyError, OSError):
        return str(os.getuid())


def _boot() -> str | None:
    found = read("/proc/sys/kernel/random/boot_id", 64)
    return found.decode("ascii", "replace").strip() if found else None


def _umask() -> int:
    """The kernel says it without changing it."""
    found = re.search(rb"^Umask:\s*([0-7]+)$", read("/proc/self/status", 4096) or b"", re.MULTILINE)
    if found is not None:
        return int(found[1], 8)
    before = os.umask(0o022)
    os.umask(before)
    return before
