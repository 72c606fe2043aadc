"""The answers about runs, as values; OpenAPI is derived from them."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Struct

from andon.model.job.progress import WorkProgress
from andon.model.run.record import (
    GitState,
    OutOfMemory,
    RunCurve,
    RunDevice,
    RunExtreme,
    RunKind,
    RunState,
)
from andon.model.shapes import Doc
from andon.node.job_schemas import PageScope

EnergySource = Annotated[
    str | None, Doc('"counter" of the devices, or "power": an estimate from power and time')
]

Plain = str | float | bool | None
Progress = Annotated[
    WorkProgress | None,
    Doc("while it runs, if its steps are logged or its job prints them; null if hidden"),
]


class RunEntry(Struct, frozen=True):
    """A run as the list shows it."""

    id: str
    name: str
    kind: RunKind
    state: RunState
    node: str
    user: str | None
    began: float
    ended: Annotated[float | None, Doc("null while it is in progress")]
    duration_seconds: Annotated[float | None, Doc("so far, while it is in progress")]
    gpus: Annotated[str | None, Doc('"2 × H200"; null if it had none')]
    models: list[str]
    devices: list[RunDevice]
    telemetry: Annotated[bool, Doc("whether its devices were sampled")]
    telemetry_reason: Annotated[str | None, Doc("why they were not")]
    samples: Annotated[int | None, Doc("null if not counted yet")]
    parent: Annotated[str | None, Doc("the run that it is part of")]
    group: str | None
    rank: int | None
    world_size: int | None
    simulated: bool
    waited_seconds: float | None
    exit_code: int | None
    message: str | None
    mean_utilization_percent: float | None
    peak_memory_bytes: int | None
    energy_joules: float | None
    energy_source: EnergySource
    idle_share: float | None
    tags: list[str]
    note: str | None
    last_values: Annotated[Mapping[str, float], Doc("the last of each value that it logged")]
    extremes: Annotated[
        Mapping[str, tuple[RunExtreme, RunExtreme]],
        Doc("the lowest and the highest of each value that it logged, of the first thirty names"),
    ]
    params: Annotated[Mapping[str, Plain] | None, Doc("null if hidden")]
    command: Annotated[str | None, Doc("null if hidden or if there is none")]
    hidden: Annotated[
        str | None, Doc("why command, folders, parameters, note, message and values are not shown")
    ]
    progress: Progress


class RunChoice(Struct, frozen=True):
    """A value that the list can be filtered by, and how many runs have it."""

    value: str
    count: int


class RunChoices(Struct, frozen=True):
    """What the list can be filtered by."""

    models: list[RunChoice]
    tags: list[RunChoice]
    groups: list[RunChoice]
    states: list[RunChoice]


class RunPage(Struct, frozen=True):
    """A page of runs, the latest first."""

    items: list[RunEntry]
    total: Annotated[int, Doc("how many match")]
    all: Annotated[int, Doc("how many there are")]
    offset: int
    limit: int
    choices: RunChoices
    whose: Annotated[str, Doc("whose runs these are, in words")]
    note: Annotated[str | None, Doc("why some are missing, if they are")]
    scope: PageScope = PageScope.SERVER
    shared: Annotated[bool, Doc("whether this server shows each user who signs in their own")] = (
        False
    )


class ChosenDevice(Struct, frozen=True):
    """A device that could have been chosen, as it was at that time."""

    index: int
    name: str
    memory_free_mb: float | None
    utilization_percent: float | None
    availability_score: float | None
    chosen: bool
    obstacle: str | None


class RunDeviceChoice(Struct, frozen=True):
    """How the devices were chosen."""

    count: int
    indices: list[int]
    allocation_method: str | None
    details: list[ChosenDevice]


class RunGpuInfo(Struct, frozen=True):
    """The devices of a run."""

    model: str | None
    count: int
    device_ids: Annotated[list[str], Doc("what each device is called: 0, or 6:1")]
    world_size: int | None
    gpu_info: RunDeviceChoice


class MonitoredSpread(Struct, frozen=True):
    """Extremes and mean; null if it was never known."""

    min: float | None
    max: float | None
    mean: float | None


class CountedMonitoredSpread(MonitoredSpread, frozen=True):
    """The same, and of how many readings."""

    samples: int


class MonitoredGpu(Struct, frozen=True):
    """What one device did; `_mb` are MiB."""

    name: str
    utilization: CountedMonitoredSpread
    memory_used_mb: MonitoredSpread
    memory_usage_percent: MonitoredSpread
    temperature_c: MonitoredSpread
    power_draw_w: MonitoredSpread


class GpuMonitoring(Struct, frozen=True):
    """What a run used, as `GPUMonitor.stop_monitoring` gives it."""

    monitoring_duration_seconds: float
    sample_count: int
    gpu_stats: Annotated[
        Mapping[str, MonitoredGpu], Doc("by the device's index, as text, or a partition's label")
    ]


class RunMetrics(Struct, frozen=True):
    """What was measured during a run."""

    gpu_monitoring: Annotated[GpuMonitoring | None, Doc("null without samples")]


class RunUse(Struct, frozen=True):
    """One device of a run: what the table shows."""

    uuid: str
    index: int
    label: str
    name: str
    samples: int | None
    idle_share: float | None
    energy_joules: float | None
    energy_source: EnergySource
    peak_memory_bytes: float | None
    readings: Annotated[Mapping[str, MonitoredSpread], Doc("by reading, such as power_watts")]


class RunColumns(Struct, frozen=True):
    """The readings over time, in columns."""

    at: Annotated[
        list[float], Doc("seconds since the beginning; a value is the mean up to the next")
    ]
    devices: Annotated[
        Mapping[str, Mapping[str, list[float | None]]], Doc("by uuid and reading; null: not read")
    ]


class RunCourses(Struct, frozen=True):
    """The utilisation of several runs in a few points each."""

    runs: Annotated[
        Mapping[str, list[float | None]],
        Doc("by id: percent in equal parts of its time; null: not read; empty: no samples"),
    ]
    left: Annotated[int, Doc("how many were not read in time: ask again for those")]


class RecordExtent(Struct, frozen=True):
    """How much of the record is in this answer."""

    bytes: int
    of_bytes: int
    unreadable: Annotated[int, Doc("lines that do not belong to a record")]
    problem: Annotated[str | None, Doc("of the first of those lines, or of the file")]


class RunDetails(RunEntry, frozen=True):
    """One run: what it was, what it used, and its readings over time."""

    lease: str | None
    working_directory: Annotated[str | None, Doc("null if hidden")]
    path: Annotated[str | None, Doc("of its record; null if hidden")]
    downloadable: bool
    git: GitState | None
    git_reason: str | None
    versions: Mapping[str, str]
    versions_reason: str | None
    gpu_info: RunGpuInfo
    metrics: RunMetrics
    uses: list[RunUse]
    series: RunColumns
    curves: Annotated[Mapping[str, RunCurve], Doc("what it logged, by name; empty if hidden")]
    signal: int | None
    dropped: Annotated[int, Doc("lines that could not be written in time")]
    out_of_memory: OutOfMemory | None
    read: RecordExtent


class RunMark(Struct, frozen=True):
    """Something that happened during a run: an event, an item, an alert."""

    at: Annotated[float, Doc("seconds since the beginning")]
    kind: Annotated[str, Doc("event, item or alert")]
    title: str
    detail: Annotated[str | None, Doc("null if hidden or if there is none")]
    level: Annotated[str | None, Doc("of an alert")]
    failed: bool


class RunMarks(Struct, frozen=True):
    """What happened during a run, earliest first."""

    id: str
    items: list[RunMark]
    omitted: Annotated[int, Doc("earlier ones that are left out")]
    note: Annotated[str | None, Doc("why some are missing, if they are")]


class RunUpdate(Struct, frozen=True):
    """The live event `run`: what is new since the last one."""

    id: str
    state: RunState
    since_bytes: Annotated[int, Doc("it continues an answer whose `read.bytes` this is")]
    read: RecordExtent
    duration_seconds: float | None
    samples: int
    series: RunColumns
    curves: Annotated[Mapping[str, RunCurve], Doc("what it logged since then")]
    uses: list[RunUse]
    marks: list[RunMark]
    progress: Progress
