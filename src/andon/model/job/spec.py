"""A job as it was submitted, and its JSON; `submit` must be quick, so it imports little."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from andon.model.codec import (
    Id,
    Json,
    Name,
    Number,
    Texts,
    Time,
    Wrong,
    is_shallow,
    read,
    shown,
    to_json,
)
from andon.model.job.device_request import MOST_GPUS, DeviceRequest

JOB_SCHEMA = "andon.job/1"
MOST_ARRAY = 10_000
"""Elements of an array."""
MOST_RETRIES = 1000
MOST_JOBS = 10_000_000
"""The largest number of a job."""
MOST_SECONDS = 100 * 366 * 86_400.0
MOST_ARGUMENTS = 65_536
MOST_VARIABLES = 16_384
LONGEST_ARGUMENT = 2 * 1024 * 1024
OWN_SECRETS = frozenset({"ANDON_TOKEN", "ANDON_HUB_TOKEN", "BENCHMARK_API_KEY"})
JobNumber = Annotated[int, Meta(ge=1, le=MOST_JOBS)]
JobNumbers = Annotated[tuple[JobNumber, ...], Meta(max_length=MOST_ARRAY)]
Elements = Annotated[int, Meta(ge=0, le=MOST_ARRAY)]
Retries = Annotated[int, Meta(ge=0, le=MOST_RETRIES)]
Seconds = Annotated[float, Meta(ge=0.0, le=MOST_SECONDS)]
Word = Annotated[str, Meta(max_length=LONGEST_ARGUMENT, pattern=r"\A[^\0]*\Z")]
"""A word of a command, a path or a value of a variable: any bytes but a zero."""
Argv = Annotated[tuple[Word, ...], Meta(min_length=1, max_length=MOST_ARGUMENTS)]
VariableName = Annotated[str, Meta(max_length=LONGEST_ARGUMENT, pattern=r"\A[^=\0]+\Z")]
Variables = Annotated[tuple[Name, ...], Meta(max_length=MOST_VARIABLES)]
Devices = Annotated[int, Meta(ge=0, le=MOST_GPUS)]
SomeJob = Annotated[int, Meta(ge=0, le=MOST_JOBS)]
"""0 where no number was given yet."""
Environment = Annotated[Mapping[VariableName, Word], Meta(max_length=MOST_VARIABLES)]
CHECKPOINT_SECONDS = 60.0
"""How long before its end a job is signalled to save its work, by default."""


class NotifyWhen(StrEnum):
    """When people are notified about a job."""

    END = "end"
    FAIL = "fail"


class Checkpoint(Struct, frozen=True):
    """A signal that a job gets before its time is up."""

    signal: Annotated[str, Meta(max_length=16)] = "USR1"
    seconds: Seconds = CHECKPOINT_SECONDS


class ArrayPlace(Struct, frozen=True):
    """One element of an array of jobs; `id` is the number of its first job."""

    id: JobNumber
    index: SomeJob
    size: Elements
    limit: Elements | None = None  # how many may run at once


class JobSpec(Struct, frozen=True):
    """A job as it was submitted; never changed afterwards."""

    number: JobNumber
    name: Name
    argv: Argv
    folder: Word  # the working directory
    request: DeviceRequest
    submitted_at: Time
    user: Name = ""
    umask: Annotated[int, Meta(ge=0, le=0o777)] = 0o022
    environment: Environment = field(default_factory=dict)  # whole; empty in a scan
    shown: Variables = ()  # the names of the environment that may be shown
    masks: Texts = field(default_factory=dict)  # variables that hide devices from it
    simulate: Devices | None = None  # the number of simulated devices; None means real ones
    scenario: Name = ""  # what the simulated devices do, if the submission names it
    for_seconds: Seconds | None = None
    grace_seconds: Seconds | None = None  # None: as the setting work.grace says when it starts
    timeout_seconds: Seconds | None = None  # None waits without limit
    after: JobNumbers = ()  # these must have succeeded
    after_any: JobNumbers = ()  # these must have ended
    begin_at: Time | None = None
    array: ArrayPlace | None = None
    retries: Retries = 0
    retry_lost: bool = False
    retry_oom: Retries = 0
    checkpoint: Checkpoint | None = None
    notify: NotifyWhen | None = None
    unique: bool = False
    boot: Name | None = None  # with `submitted_boot_seconds`, a wait that no clock change affects
    submitted_boot_seconds: Seconds | None = None
    git_commit: Name | None = None
    tags: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    container: Mapping[str, object] = field(default_factory=dict)  # of an engine; empty: none
    bind: bool = False  # on the CPUs next to its devices
    group: Name | None = None  # of its run: jobs that belong together, such as a sweep
    params: Mapping[str, Number | bool | Name] = field(default_factory=dict)  # of its run
    metrics: Texts = field(default_factory=dict)  # patterns of figures in its output, by name
    stop_when: Name | None = None  # such figures that make it hopeless
    book: Word = ""  # ANDON_LEASE_DIR of the submission
    submission: Id | None = None  # its label, if it was submitted on another machine
    check: bool = False  # its devices, before it starts
    reservation: Name | None = None  # of its user: it starts in its time, on its devices

    @property
    def label(self) -> str:
        """`12`, or `12_3` for an element of an array."""
        return str(self.number) if self.array is None else f"{self.array.id}_{self.array.index}"

    @property
    def priority(self) -> int:
        return self.request.priority


# JSON of a job as it was submitted; `submit` must be quick, so this module imports little.

LARGEST_JOB_BYTES = 4 * 1024 * 1024


def dumps(value: object) -> str:
    """Returns a line of JSON; lone surrogates, which a path or variable may have, are escaped."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def loads(text: bytes | str) -> dict[str, Any]:
    """Reads one JSON object; raises Wrong otherwise."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Wrong("", f"is not valid JSON: {exc}") from None
    if type(value) is not dict:
        raise Wrong("", f"is {shown(value)}, not a table")
    if not is_shallow(value):
        raise Wrong("", "is nested too deeply")
    return value


def without_own_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the submitter's environment without andon's own secrets, for work that starts later
    or elsewhere."""
    return {name: value for name, value in variables.items() if name not in OWN_SECRETS}


def spec_to_json(spec: JobSpec) -> dict[str, Any]:
    """Returns the job as JSON; the environment comes last: it is by far the largest."""
    out = {"schema": JOB_SCHEMA, **to_json(spec)}
    out["environment"] = out.pop("environment")
    return out


def spec_from_json(value: Json, environment: bool = True) -> JobSpec:
    """Reads a job; raises Wrong for anything but a whole one; without its environment for lists."""
    if value.get("schema") != JOB_SCHEMA:
        raise Wrong("schema", f"is {shown(value.get('schema'))}, not {JOB_SCHEMA!r}")
    found = read(JobSpec, value if environment else {**value, "environment": {}})
    if found.request.least > found.request.most:
        raise Wrong("request.least", f"is {found.request.least}, more than {found.request.most}")
    return found
