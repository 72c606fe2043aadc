"""The record of a run, `andon.run/1`: one JSON object per line, append-only.

`begin` first; then, in any order, `facts` (what takes a moment to find out), `joined` (a device
that the run took later), `sample`, `log`, `event`, `item` and `alert`; `end` last. A record without
`end` belongs to a run that is still in progress or was killed: its reader checks the process.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from andon.model.codec import (
    MOST_ITEMS,
    Amount,
    AnyNumber,
    ExitCode,
    Id,
    Name,
    Names,
    Number,
    Text,
    Texts,
    Time,
    Whole,
)
from andon.model.job.progress import WorkProgress

RUN_SCHEMA = "andon.run/1"
MOST_LINE_BYTES = 4 * 1024 * 1024
"""A longer line is not of a record; the last one holds a series for each device."""
SERIES_POINTS = 500
WAITED = "waiting_for_data_percent"
"""The logged value of callbacks: how much of its time a training loop waited for its batches."""
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
    BENCHMARK = "benchmark"  # andon benchmark: a load on a server


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
    ENDED = "ended"  # how is not known: it was recorded from outside
    LOST = "lost"  # there is no end, and its process is gone


class ItemState(StrEnum):
    """What happened to one item of a run that works through items."""

    START = "start"
    OK = "ok"
    FAILED = "failed"
    RETRY = "retry"


class RunDevice(Struct, frozen=True):
    """A device of a run, so that the record can be read without the node."""

    uuid: Name
    index: Whole
    label: Name
    name: Name
    memory_total_bytes: Whole | None = None
    power_limit_watts: Amount | None = None


RunDevices = Annotated[tuple[RunDevice, ...], Meta(max_length=4096)]
"""As many as a snapshot may have."""


class RunCandidate(Struct, frozen=True):
    """A device that could have been chosen, and its state at that time."""

    index: Whole
    name: Name
    memory_free_mb: Number | None = None
    utilization_percent: Number | None = None
    availability_score: Number | None = None
    uuid: Name | None = None
    obstacle: Text | None = None  # why it was not available, in words


class RunBegin(Struct, frozen=True):
    """The first line: what the run is, and where."""

    at: Time
    id: Id  # eight letters
    name: Name
    kind: RunKind
    node: Name
    user: Name | None
    pid: Whole
    boot: Name | None  # with `started`, whether the process still runs can be checked
    started: Amount | None  # of the process, in ticks since boot
    devices: RunDevices
    simulated: bool = False
    command: Text | None = None  # without secrets
    working_directory: Text | None = None
    parent: Name | None = None  # the run that this one is part of
    group: Name | None = None  # runs that belong together: the ranks of a job, a sweep
    rank: Whole | None = None
    world_size: Whole | None = None
    lease: Name | None = None
    waited_seconds: Amount | None = None
    allocation_method: Name | None = None  # how the devices were chosen, in words
    candidates: tuple[RunCandidate, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    tags: Names = ()
    pid_namespace: Name | None = None  # where its pid counts: a container has its own


class GitState(Struct, frozen=True):
    """The commit of the working directory."""

    commit: Name
    dirty: bool | None = None


class RunFacts(Struct, frozen=True):
    """Facts that take a moment to find out, collected while the run starts."""

    at: Time
    git: GitState | None = None
    git_reason: Text | None = None  # why there is none
    versions: Texts = field(default_factory=dict)  # of torch, jax, …
    versions_reason: Text | None = None


class RunJoined(Struct, frozen=True):
    """A device that the run took after it had begun: a map grows as devices become free."""

    at: Time
    device: RunDevice


class RunSample(Struct, frozen=True):
    """The run's devices at one time, by uuid: `state` and the readings of `SAMPLED`."""

    at: Time
    devices: Mapping[Name, Mapping[str, Any]]
    cpu_percent: Number | None = None  # of the node: a starved loader shows here
    progress: WorkProgress | None = None  # where the command's error output tells it


class LoggedSpread(Struct, frozen=True, array_like=True):
    """Several values of one name, of which a line has the last."""

    low: AnyNumber
    mean: AnyNumber
    high: AnyNumber
    count: Whole


class RunLogged(Struct, frozen=True):
    """Values of the program's own: a loss at a step. What is logged within the same second is
    joined, if it is much, to fewer lines: with the last value, time and step."""

    at: Time
    values: Mapping[Name, AnyNumber]
    step: AnyNumber | None = None
    spreads: Mapping[Name, LoggedSpread] = field(default_factory=dict)  # of several values
    gaps: Mapping[Name, Whole] = field(default_factory=dict)  # how many were no finite numbers
    restarts: Whole = 0  # how often the step went back


class RunEvent(Struct, frozen=True):
    """Something that the program reports: an epoch began."""

    at: Time
    name: Name
    data: Mapping[str, Any] = field(default_factory=dict)


class RunItem(Struct, frozen=True):
    """An item of a run that works through items."""

    at: Time
    state: ItemState
    index: Whole
    item: Text
    device: Name | None = None  # its label
    attempt: Whole = 1
    runtime_seconds: Amount | None = None
    output: Text | None = None  # the end of it
    begun_before: bool = False  # by the map that this one resumes, which was killed meanwhile


class RunAlert(Struct, frozen=True):
    """An alert on one of the run's devices while it ran."""

    at: Time
    rule: Name
    level: Name
    state: Name
    message: Text
    device: Name | None = None


class OutOfMemory(Struct, frozen=True):
    """An allocation that failed, in bytes; None where it is not known."""

    reported_by: Name | None = None
    wanted_bytes: Whole | None = None
    free_bytes: Whole | None = None
    held_by_run_bytes: Whole | None = None
    held_by_others_bytes: Whole | None = None
    held_by_cache_bytes: Whole | None = None
    growth: Name | None = None  # "leak" or "step", as far as the samples tell


class RunSeries(Struct, frozen=True):
    """The whole run in at most `SERIES_POINTS` points, so that a long one opens at once.

    `at` are seconds since the begin; a value is the mean of its span, None where nothing was read.
    """

    at: Annotated[tuple[float, ...], Meta(max_length=MOST_ITEMS)]
    devices: Mapping[Name, Mapping[Name, tuple[Number | None, ...]]]

    def __post_init__(self) -> None:
        lines = (points for named in self.devices.values() for points in named.values())
        if any(len(points) != len(self.at) for points in lines):
            raise ValueError("has lines of different lengths")


class RunExtreme(Struct, frozen=True):
    """The lowest or the highest value of a curve, and where it was."""

    value: AnyNumber
    at: Number  # seconds since the begin
    step: AnyNumber | None = None


Values = Annotated[tuple[AnyNumber | None, ...], Meta(max_length=MOST_ITEMS)]


class RunCurve(Struct, frozen=True):
    """The values of one name over the whole run, in buckets; None where none is a finite number.

    `at` and `steps` are those of the last value of a bucket, and `at` is in seconds since the
    begin. `low`, `mean` and `high` are empty if every bucket has one value, `steps` if none was
    logged with one, and `gaps` if every value is a number. `restarts` are the places of buckets at
    which the step went back.
    """

    at: Annotated[tuple[Number, ...], Meta(max_length=MOST_ITEMS)]
    last: Values
    low: Values = ()
    mean: Values = ()
    high: Values = ()
    steps: Values = ()
    gaps: Annotated[tuple[Whole, ...], Meta(max_length=MOST_ITEMS)] = ()
    restarts: Annotated[tuple[Whole, ...], Meta(max_length=MOST_ITEMS)] = ()
    lowest: RunExtreme | None = None
    highest: RunExtreme | None = None

    def __post_init__(self) -> None:
        count, columns = len(self.at), (self.low, self.mean, self.high, self.steps, self.gaps)
        if len(self.last) != count or any(len(one) not in (count, 0) for one in columns):
            raise ValueError("has columns of different lengths")
        if any(place >= count for place in self.restarts):
            raise ValueError("has a restart beyond its end")


class RunEnd(Struct, frozen=True):
    """The last line: how it ended and what it used.

    `summary` is by uuid: a `DeviceUse` of `model/run/use.py`. `node` is
    the machine's own: `cpu_percent`, a `RunSpread`.
    """

    at: Time
    state: RunState
    duration_seconds: Amount
    samples: Whole
    summary: Mapping[Name, Mapping[str, Any]]
    exit_code: ExitCode | None = None
    signal: Whole | None = None
    message: Text | None = None
    reported_by: Name | None = None
    dropped: Whole = 0  # lines that could not be written in time
    no_samples_reason: Text | None = None
    out_of_memory: OutOfMemory | None = None
    series: RunSeries | None = None
    last_values: Mapping[Name, AnyNumber] = field(default_factory=dict)  # the last of each
    node: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    released_by: Name | None = None  # who ended its lease
    release_note: Text | None = None
    devices: RunDevices = ()  # all of them, where some joined later
    curves: Mapping[Name, RunCurve] = field(default_factory=dict)  # of the logged values


RunLine = (
    RunBegin | RunFacts | RunJoined | RunSample | RunLogged | RunEvent | RunItem | RunAlert | RunEnd
)


class RunRow(Struct, frozen=True):
    """A run as lists show it: what its record says, and what people added to it. `extremes` are the
    lowest and the highest of each logged value, of the first thirty names.

    The record is authoritative: the index that holds these rows can be rebuilt from the files.
    """

    id: Id
    name: Name
    kind: RunKind
    state: RunState
    node: Name
    began: Time
    path: Text  # of its record
    user: Name | None = None
    ended: Number | None = None
    duration_seconds: Amount | None = None
    command: Text | None = None
    devices: RunDevices = ()
    parent: Name | None = None
    group: Name | None = None
    rank: Whole | None = None
    world_size: Whole | None = None
    simulated: bool = False
    samples: Whole | None = None  # not known while it goes on
    no_samples_reason: Text | None = None
    waited_seconds: Amount | None = None  # for its devices, before it began
    exit_code: ExitCode | None = None
    message: Text | None = None
    mean_utilization_percent: Number | None = None  # over its devices
    peak_memory_bytes: Whole | None = None  # of its fullest device
    energy_joules: Number | None = None  # of all its devices
    energy_source: Name | None = None  # "power" where that is what any of it was computed from
    idle_share: Number | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    last_values: Mapping[Name, AnyNumber] = field(default_factory=dict)  # the last of each
    extremes: Mapping[Name, tuple[RunExtreme, RunExtreme]] = field(default_factory=dict)
    tags: Names = ()
    note: Text | None = None
    progress: WorkProgress | None = None  # while it runs, where its steps are logged or printed
