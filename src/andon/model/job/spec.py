"""A job as it was submitted; a separate module, because `submit` must import little."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from andon.model.job.device_request import DeviceRequest

JOB_SCHEMA = "andon.job/1"
MOST_ARRAY = 10_000
"""Elements of an array."""
MOST_RETRIES = 1000
GRACE_SECONDS = 30.0
"""Between SIGTERM and SIGKILL, unless --grace says otherwise."""
CHECKPOINT_SECONDS = 60.0
"""How long before its end a job is signalled to save its work, by default."""


class NotifyWhen(StrEnum):
    """When people are notified about a job."""

    END = "end"
    FAIL = "fail"


class Checkpoint(Struct, frozen=True):
    """A signal that a job gets before its time is up."""

    signal: str = "USR1"
    seconds: float = CHECKPOINT_SECONDS


class ArrayPlace(Struct, frozen=True):
    """One element of an array of jobs; `id` is the number of its first job."""

    id: int
    index: int
    size: int
    limit: int | None = None  # how many may run at once


class JobSpec(Struct, frozen=True):
    """A job as it was submitted; never changed afterwards."""

    number: int
    name: str
    argv: tuple[str, ...]
    folder: str  # the working directory
    request: DeviceRequest
    submitted_at: float
    user: str = ""
    umask: int = 0o022
    environment: Mapping[str, str] = field(default_factory=dict)  # whole; empty in a scan
    shown: tuple[str, ...] = ()  # the names of the environment that may be shown
    masks: Mapping[str, str] = field(default_factory=dict)  # variables that hide devices from it
    simulate: int | None = None  # the number of simulated devices; None means real ones
    scenario: str = ""  # what the simulated devices do, if the submission said so
    for_seconds: float | None = None
    grace_seconds: float = GRACE_SECONDS
    timeout_seconds: float | None = None  # None waits without limit
    after: tuple[int, ...] = ()  # these must have succeeded
    after_any: tuple[int, ...] = ()  # these must have ended
    begin_at: float | None = None
    array: ArrayPlace | None = None
    retries: int = 0
    retry_lost: bool = False
    retry_oom: int = 0
    checkpoint: Checkpoint | None = None
    notify: NotifyWhen | None = None
    unique: bool = False
    boot: str | None = None  # with `submitted_boot_seconds`, a wait that no clock change affects
    submitted_boot_seconds: float | None = None
    git_commit: str | None = None
    tags: tuple[str, ...] = ()
    container: Mapping[str, object] = field(default_factory=dict)  # of an executor; empty: none
    bind: bool = False  # on the CPUs next to its devices
    group: str | None = None  # of its run: jobs that belong together, such as a sweep
    params: Mapping[str, str | int | float | bool] = field(default_factory=dict)  # of its run

    @property
    def label(self) -> str:
        """`12`, or `12_3` for an element of an array."""
        return str(self.number) if self.array is None else f"{self.array.id}_{self.array.index}"

    @property
    def priority(self) -> int:
        return self.request.priority
