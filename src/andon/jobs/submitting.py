"""The facts at submission of a job: folder, user, masks, clocks, the commit of the folder."""

import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from andon.errors import Invalid
from andon.host.clock import boot_seconds
from andon.host.files import read
from andon.host.machine_id import boot_id
from andon.host.users import user_name
from andon.jobs.git_commit import GitCommitLookup
from andon.model.codec import Wrong
from andon.model.job.desk import Submission
from andon.model.job.device_request import DeviceRequest
from andon.model.job.spec import (
    LARGEST_JOB_BYTES,
    JobSpec,
    dumps,
    loads,
    spec_from_json,
    spec_to_json,
    without_own_secrets,
)
from andon.units import command_name, valid_text

_MASK = re.compile("VISIBLE_DEVICES|DEVICE_ORDINAL|AFFINITY_MASK|SLURM_")
"""Names that may be masks; the table of all takes longer to import than this takes."""
SHOWN = ("CUDA_VISIBLE_DEVICES", "CONDA_DEFAULT_ENV", "VIRTUAL_ENV")
"""Variables that may be shown of any job."""
PREFIXES = ("CONDA_PREFIX", "VIRTUAL_ENV")
"""Where the programs of an environment are, in `bin`."""
_SPARE_BYTES = 4096  # for the number and the place in an array, which come later


def local_spec(
    argv: Sequence[str],
    request: DeviceRequest,
    *,
    name: str = "",
    folder: str = "",
    environment: Mapping[str, str] | None = None,
    git: bool = True,
    commit: GitCommitLookup | None = None,
    **more: Any,
) -> JobSpec:
    """Returns a job with this process's user, folder and environment; `more` are fields of
    JobSpec.

    `commit` is a lookup that was started earlier.
    """
    if request.least < 1:
        raise Invalid("a job needs at least one GPU", hint="request 1 GPU or more")
    place = folder or _current_folder()
    lookup = GitCommitLookup(place) if git and commit is None else commit
    given = without_own_secrets(os.environ) if environment is None else environment
    variables = {one: value for one, value in given.items() if one}  # nothing could pass on others
    spec = JobSpec(
        number=0,
        name=name or valid_text(command_name(argv))[:200] or "job",
        argv=tuple(argv),
        folder=place,
        request=request,
        submitted_at=time.time(),
        user=user_name(os.getuid()),
        umask=_umask(),
        environment=variables,
        shown=tuple(one for one in SHOWN if one in variables),
        masks=_masks(variables),
        scenario=variables.get("ANDON_SIMULATE_SCENARIO", ""),
        book=variables.get("ANDON_LEASE_DIR", ""),
        boot=boot_id(),
        submitted_boot_seconds=boot_seconds(),
        **more,
    )

    refuse_unreadable(spec)
    return spec if lookup is None else replace(spec, git_commit=lookup.answer())


def new_submission(job: JobSpec, **more: Any) -> Submission:
    """Returns a job to hand in, under a label of its own; `more` are fields of it."""
    return Submission(f"a{os.urandom(6).hex()}", job, **more)


def refuse_unreadable(spec: JobSpec) -> None:
    """Refuses a job that cannot be read back: a dispatcher would skip it."""
    text = dumps(spec_to_json(replace(spec, number=1, array=None)))
    if len(text) > LARGEST_JOB_BYTES - _SPARE_BYTES:
        raise Invalid(
            f"this job is too large: its command and environment have {len(text):,} bytes as JSON, "
            f"more than {LARGEST_JOB_BYTES:,}",
            hint="leave out large variables: env -u NAME andon submit …",
        )
    try:
        spec_from_json(loads(text))
    except Wrong as wrong:
        raise Invalid(
            f"this job cannot be queued: {wrong}", hint="change that, then submit it again"
        ) from None


def _current_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - a string is stored
    except OSError as exc:
        raise Invalid(
            "the current folder no longer exists", hint="change to the folder of the job"
        ) from exc


def _masks(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the device masks of the environment; none if they come from this process's lease."""
    if "ANDON_LEASE" in variables or not any(map(_MASK.search, variables)):
        return {}
    from andon.sampling.rules.masks import VARIABLES

    return {name: variables[name] for name in VARIABLES if name in variables}


def _umask() -> int:
    """Returns the umask from /proc, which does not change it."""
    found = re.search(rb"^Umask:\s*([0-7]+)$", read("/proc/self/status", 4096) or b"", re.MULTILINE)
    if found is not None:
        return int(found[1], 8)
    before = os.umask(0o022)
    os.umask(before)
    return before
