"""The record of a run, `andon.run/1`: one JSON object per line, append-only.

`begin` first; then, in any order, `facts` (what takes a moment to find out), `joined` (a device
that the run took later), `sample`, `log`, `event`, `item` and `alert`; `end` last. A record without
`end` belongs to a run that is still in progress or was killed: its reader checks the process.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

if TYPE_CHECKING:
    from andon.model.job.progress import WorkProgress

RUN_SCHEMA = "andon.run/1"
MOST_LINE_BYTES = 4 * 1024 * 1024
"""A longer line is not of a record; the last one holds a series for each device."""
SERIES_POINTS = 500
SAMPLED = (
    "utilization_percent", "memory_used_bytes", "memory_free_bytes", "memory_utilization_percent",
    "sm_active_percent", "temperature_celsius", "power_watts", "power_limit_watts", "fan_percent",
    "sm_clock_mhz", "memory_clock_mhz", "energy_joules", "throttle",
)  # fmt: skip
"""The readings of a device in a sample line; its state comes first. `energy_joules` is the counter
of the device, and present only if it was read at the time of the line."""
SERIES = (
    "utilization_percent", "memory_used_bytes", "memory_utilization_percent", "sm_active_percent",
    "temperature_celsius", "power_watts", "sm_clock_mhz",
)  # fmt: skip
"""The readings that the last line has as a series, where they were ever known."""


class RunKind(StrEnum):
    """What made a run."""

    COMMAND = "command"  # andon run
    CODE = "code"  # andon.run(...) or @andon.recorded
    CALLBACK = "callback"  # GpuMonitorCallback
    JOB = "job"
    MAP = "map"


class RunState(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DEVICE_OUT_OF_MEMORY = "device_out_of_memory"
    HOST_OUT_OF_MEMORY = "host_out_of_memory"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    STOPPED = "stopped"  # by a person or `andon release`
    NOT_STARTED = "not_started"
    LOST = "lost"  # there is no end, and its process is gone


class ItemState(StrEnum):
    """What happened to one item of a run that works through items."""

    START = "start"
    OK = "ok"
    FAILED = "failed"
    RETRY = "retry"


class RunDevice(Struct, frozen=True):
    """A device of a run, so that the record can be read without the node."""

    uuid: str
    index: int
    label: str
    name: str
    memory_total_bytes: int | None = None
    power_limit_watts: float | None = None


class RunCandidate(Struct, frozen=True):
    """A device that could have been chosen, and its state at that time."""

    index: int
    name: str
    memory_free_mb: float | None = None
    utilization_percent: float | None = None
    availability_score: float | None = None
    uuid: str | None = None
    obstacle: str | None = None  # why it was not available, in words


class RunBegin(Struct, frozen=True):
    """The first line: what the run is, and where."""

    at: float
    id: str  # eight letters
    name: str
    kind: RunKind
    node: str
    user: str | None
    pid: int
    boot: str | None  # with `started`, whether the process still runs can be checked
    started: float | None  # of the process, in ticks since boot
    devices: tuple[RunDevice, ...]
    simulated: bool = False
    command: str | None = None  # without secrets
    working_directory: str | None = None
    parent: str | None = None  # the run that this one is part of
    group: str | None = None  # runs that belong together: the ranks of a job, a sweep
    rank: int | None = None
    world_size: int | None = None
    lease: str | None = None
    waited_seconds: float | None = None
    allocation_method: str | None = None  # how the devices were chosen, in words
    candidates: tuple[RunCandidate, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    pid_namespace: str | None = None  # where its pid counts: a container has its own


class GitState(Struct, frozen=True):
    """The commit of the working directory."""

    commit: str
    dirty: bool | None = None


class RunFacts(Struct, frozen=True):
    """What takes a moment to find out, and is found out while the run starts."""

    at: float
    git: GitState | None = None
    git_reason: str | None = None  # why there is none
    versions: Mapping[str, str] = field(default_factory=dict)  # of torch, jax, …
    versions_reason: str | None = None


class RunJoined(Struct, frozen=True):
    """A device that the run took after it had begun: a map grows as devices become free."""

    at: float
    device: RunDevice


class RunSample(Struct, frozen=True):
    """The run's devices at one time, by uuid: `state` and the readings of `SAMPLED`."""

    at: float
    devices: Mapping[str, Mapping[str, Any]]
    cpu_percent: float | None = None  # of the node: a starved loader shows here
    progress: "WorkProgress | None" = None  # where the command's error output tells it


class RunLogged(Struct, frozen=True):
    """Values of the program's own: a loss at a step."""

    at: float
    values: Mapping[str, float]
    step: float | None = None


class RunEvent(Struct, frozen=True):
    """Something that the program reports: an epoch began."""

    at: float
    name: str
    data: Mapping[str, Any] = field(default_factory=dict)


class RunItem(Struct, frozen=True):
    """An item of a run that works through items."""

    at: float
    state: ItemState
    index: int
    item: str
    device: str | None = None  # its label
    attempt: int = 1
    runtime_seconds: float | None = None
    output: str | None = None  # the end of it
    begun_before: bool = False  # by the map that this one resumes, which was killed meanwhile


class RunAlert(Struct, frozen=True):
    """An alert on one of the run's devices while it ran."""

    at: float
    rule: str
    level: str
    state: str
    message: str
    device: str | None = None


class OutOfMemory(Struct, frozen=True):
    """An allocation that failed, in bytes; None where it is not known."""

    reported_by: str | None = None
    wanted_bytes: int | None = None
    free_bytes: int | None = None
    held_by_run_bytes: int | None = None
    held_by_others_bytes: int | None = None
    held_by_cache_bytes: int | None = None
    growth: str | None = None  # "leak" or "step", as far as the samples tell


class RunSeries(Struct, frozen=True):
    """The whole run in at most `SERIES_POINTS` points, so that a long one opens at once.

    `at` are seconds since the begin; a value is the mean of its span, None where nothing was read.
    """

    at: tuple[float, ...]
    devices: Mapping[str, Mapping[str, tuple[float | None, ...]]]


class RunEnd(Struct, frozen=True):
    """The last line: how it ended and what it used.

    `summary` is by uuid: a `DeviceUse` of `model/run_use.py`. `node` is
    the machine's own: `cpu_percent`, a `RunSpread`.
    """

    at: float
    state: RunState
    duration_seconds: float
    samples: int
    summary: Mapping[str, Mapping[str, Any]]
    exit_code: int | None = None
    signal: int | None = None
    message: str | None = None
    reported_by: str | None = None
    dropped: int = 0  # lines that could not be written in time
    no_samples_reason: str | None = None
    out_of_memory: OutOfMemory | None = None
    series: RunSeries | None = None
    last_values: Mapping[str, float] = field(default_factory=dict)  # of `log`: the last of each
    node: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    released_by: str | None = None  # who ended its lease
    release_note: str | None = None
    devices: tuple[RunDevice, ...] = ()  # all of them, where some joined later


RunLine = (
    RunBegin | RunFacts | RunJoined | RunSample | RunLogged | RunEvent | RunItem | RunAlert | RunEnd
)


class RunRow(Struct, frozen=True):
    """A run as lists show it: what its record says, and what people added to it.

    The record is authoritative: the index that holds these rows can be rebuilt from the files.
    """

    id: str
    name: str
    kind: RunKind
    state: RunState
    node: str
    began: float
    path: str  # of its record
    user: str | None = None
    ended: float | None = None
    duration_seconds: float | None = None
    command: str | None = None
    devices: tuple[RunDevice, ...] = ()
    parent: str | None = None
    group: str | None = None
    rank: int | None = None
    world_size: int | None = None
    simulated: bool = False
    samples: int | None = None  # not known while it goes on
    no_samples_reason: str | None = None
    waited_seconds: float | None = None  # for its devices, before it began
    exit_code: int | None = None
    message: str | None = None
    mean_utilization_percent: float | None = None  # over its devices
    peak_memory_bytes: int | None = None  # of its fullest device
    energy_joules: float | None = None  # of all its devices
    energy_source: str | None = None  # "power" where that is what any of it was computed from
    idle_share: float | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    last_values: Mapping[str, float] = field(default_factory=dict)  # of `log`: the last of each
    tags: tuple[str, ...] = ()
    note: str | None = None
    progress: "WorkProgress | None" = None  # while it runs, where its steps are logged or printed
