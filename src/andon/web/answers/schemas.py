"""Types of the responses, for OpenAPI and for the board's generated types.

Only descriptions: `payloads` and `wire` build the responses, and a test compares the two.
"""

from pydantic import BaseModel, Field


class Limits(BaseModel):
    """The limits that the device itself reports."""

    slowdown_celsius: float | None
    power_default_watts: float | None
    pcie_generation: int | None
    pcie_width: int | None
    sm_clock_mhz: float | None


class Sample(BaseModel):
    """One device at one instant; null means that the device does not report it."""

    at: float
    utilization_percent: float | None
    memory_utilization_percent: float | None
    memory_used_bytes: int | None
    memory_free_bytes: int | None
    memory_reserved_bytes: int | None
    memory_percent: float | None
    temperature_celsius: float | None
    memory_temperature_celsius: float | None
    power_watts: float | None
    power_limit_watts: float | None
    power_percent: float | None
    energy_joules: float | None
    fan_percent: float | None
    sm_clock_mhz: float | None
    memory_clock_mhz: float | None
    throttle: list[str] | None
    encoder_percent: float | None
    decoder_percent: float | None
    pcie_generation: int | None
    pcie_width: int | None
    ecc_uncorrected: int | None
    performance_state: int | None
    sm_active_percent: float | None
    tensor_active_percent: float | None
    read_at: dict[str, float]


class Process(BaseModel):
    """An operating system process that uses a device."""

    pid: int
    started: float | None
    kind: str
    name: str | None
    user: str | None
    command: str | None
    memory_bytes: int | None
    utilization_percent: float | None
    container: str | None
    job: str | None
    lease: str | None


class DeviceStatus(BaseModel):
    """A device: its properties, its state and its latest reading."""

    uuid: str
    index: int
    label: str
    vendor: str
    name: str
    pci: str | None
    state: str
    reason: str | None
    hint: str | None
    since: float
    parent: str | None
    memory_kind: str
    memory_total_bytes: int | None
    memory_unattributed_bytes: int | None
    visible: bool
    cuda_index: int | None
    limits: Limits
    sample: Sample | None
    missing: dict[str, str]
    processes: list[Process]


class Disk(BaseModel):
    """One local file system."""

    mount: str
    used_bytes: int
    total_bytes: int


class Network(BaseModel):
    """One interface; the counters start when it comes up."""

    name: str
    received_bytes: int
    sent_bytes: int


class Host(BaseModel):
    """The node's own values."""

    cpu_percent: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    load_1m: float | None
    disk: list[Disk]
    network: list[Network]


class Fault(BaseModel):
    """A reader that failed."""

    source: str
    reason: str
    hint: str


class Snapshot(BaseModel):
    """andon.snapshot/1: a whole node at one instant."""

    schema_: str = Field(alias="schema")
    node: str
    at: float
    simulated: bool
    boot: str | None
    versions: dict[str, str]
    host: Host
    devices: list[DeviceStatus]
    faults: list[Fault]


class About(BaseModel):
    """The start of most payloads."""

    node: str
    at: float
    timestamp: str
    simulated: bool
    available: bool
    reason: str | None
    hint: str | None


class Evidence(BaseModel):
    """A reading that supports a reason."""

    name: str
    value: float | str | None
    unit: str
    at: float | None


class Reason(BaseModel):
    """One reason, with its evidence and what to do."""

    code: str
    sentence: str
    weight: float
    problem: bool
    confidence: float
    confidence_label: str
    evidence: list[Evidence]
    process: Process | None
    advice: str


class ExplainedDevice(BaseModel):
    """The ranked reasons of one device."""

    uuid: str
    index: int
    name: str
    reasons: list[Reason]


class Why(About):
    """andon.why/1."""

    schema_: str = Field(alias="schema")
    sampled_seconds: float
    devices: list[ExplainedDevice]
    reasons: list[Reason]


class Sampler(BaseModel):
    """The sampling loop."""

    state: str
    reason: str | None
    age_seconds: float | None
    interval_seconds: float
    snapshots: int
    missed: int
    sampler_cpu_seconds: float
    reader_cpu_seconds: float


class Reader(BaseModel):
    """The process that calls a driver."""

    pid: int
    state: str


class Backend(BaseModel):
    """One vendor."""

    name: str
    state: str
    reason: str | None
    hint: str | None
    devices: dict[str, int]


class Health(BaseModel):
    """The state of each part; further parts are tables with at least `state` and `reason`."""

    model_config = {"extra": "allow"}

    status: str
    version: str
    node: str | None
    at: float
    uptime_seconds: float
    simulated: bool | None
    reason: str | None
    hint: str | None
    sampler: Sampler
    readers: list[Reader]
    backends: list[Backend]


class Band(BaseModel):
    """Minimum, mean and maximum of each span; null if there is no reading."""

    min: list[float | None]
    mean: list[float | None]
    max: list[float | None]


class Charts(BaseModel):
    """Several readings of one device over time, in columns."""

    device: str
    since: float
    until: float
    at: list[float]
    series: dict[str, Band]
    throttle: list[list[str]]


class UsageRow(BaseModel):
    """One process on one device over an interval."""

    pid: int
    started: float | None
    user: str | None
    name: str | None
    first: float
    last: float
    peak_memory_bytes: int | None


class Usage(BaseModel):
    """The processes that used a device, latest first."""

    device: str
    since: float
    until: float
    items: list[UsageRow]
    omitted: int


class Recent(BaseModel):
    """The last two minutes of one reading, for each device."""

    metric: str
    at: list[float]
    devices: dict[str, list[float | None]]


class Features(BaseModel):
    """The features of this server."""

    version: str
    features: dict[str, bool]
