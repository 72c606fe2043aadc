"""Devices, samples, processes and snapshots."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # imported at every start; events are rare
    from andon.model.alert import Event

NAMES_MISSING = "processes.names"
"""The key of `missing` for the reason why listed processes have no name."""


class State(StrEnum):
    """State of a device at its last reading."""

    OK = "ok"
    STALE = "stale"  # no answer yet
    LOST = "lost"  # reported as lost by the driver
    ASLEEP = "asleep"  # suspended by the system and not woken


class MemoryKind(StrEnum):
    """Whether the device has memory of its own or uses the system's."""

    DEVICE = "device"
    UNIFIED = "unified"


class ProcessKind(StrEnum):
    """What a process uses the device for; MPS clients compute."""

    COMPUTE = "compute"
    GRAPHICS = "graphics"


@dataclass(frozen=True, slots=True)
class Fault:
    """A reader that failed this time; the rest of the snapshot is valid."""

    source: str
    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """One board, which is read, and can hang, separately: a device and its partitions."""

    key: str
    index: int
    pci: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that the device reports."""

    slowdown_celsius: int | None = None
    power_default_watts: float | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    sm_clock_mhz: int | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """Static facts about a device."""

    uuid: str
    index: int
    vendor: str
    name: str
    pci: str | None = None
    parent: str | None = None  # the uuid of the board, for a MIG instance
    memory_kind: MemoryKind = MemoryKind.DEVICE
    memory_total_bytes: int | None = None
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Sample:
    """One device at one instant. None means unknown; the reason is in `missing`."""

    at: float
    utilization_percent: int | None = None
    memory_utilization_percent: int | None = None
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    temperature_celsius: int | None = None
    memory_temperature_celsius: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    energy_joules: float | None = None
    fan_percent: int | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    throttle: tuple[str, ...] | None = None
    encoder_percent: int | None = None
    decoder_percent: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    ecc_uncorrected: int | None = None
    performance_state: int | None = None
    sm_active_percent: float | None = None
    tensor_active_percent: float | None = None
    read_at: Mapping[str, float] = field(default_factory=dict)  # only fields older than `at`


SAMPLE_VALUES = tuple(f.name for f in fields(Sample) if f.name not in ("at", "read_at"))
"""The values of a sample, in the order in which they are always listed."""


@dataclass(frozen=True, slots=True)
class Process:
    """An OS process that uses a device; its identity is pid and start time."""

    pid: int
    kind: ProcessKind = ProcessKind.COMPUTE
    started: float | None = None
    name: str | None = None
    user: str | None = None
    command: str | None = None
    memory_bytes: int | None = None
    utilization_percent: int | None = None
    container: str | None = None
    job: str | None = None
    lease: str | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One device's answer to one request."""

    uuid: str
    sample: Sample | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    processes: tuple[Process, ...] = ()
    state: State = State.OK
    reason: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """A device in a snapshot: its facts, its state, its latest reading."""

    device: Device
    state: State
    since: float
    reason: str | None = None
    hint: str | None = None
    visible: bool = True
    cuda_index: int | None = None
    sample: Sample | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    processes: tuple[Process, ...] = ()
    label: str = ""  # set where its place in the list no longer tells it: see `device_labels`

    @property
    def answered(self) -> bool:
        """Whether the sample is from this reading."""
        return self.state is State.OK and self.sample is not None

    @property
    def memory_percent(self) -> float | None:
        used = self.sample.memory_used_bytes if self.sample else None
        return _share(used, self.device.memory_total_bytes)

    @property
    def power_percent(self) -> float | None:
        if self.sample is None:
            return None
        return _share(self.sample.power_watts, self.sample.power_limit_watts)

    @property
    def memory_unattributed_bytes(self) -> int | None:
        """Used memory that no listed process accounts for; None if either side is unknown."""
        used = self.sample.memory_used_bytes if self.sample else None
        held = [process.memory_bytes for process in self.processes]
        if used is None or "processes" in self.missing or None in held:
            return None
        return max(0, used - sum(size for size in held if size is not None))


@dataclass(frozen=True, slots=True)
class Disk:
    """One local file system."""

    mount: str
    used_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Network:
    """One interface; the counters start when it comes up."""

    name: str
    received_bytes: int
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class Host:
    """The node's own values."""

    cpu_percent: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    load_1m: float | None = None
    disk: tuple[Disk, ...] = ()
    network: tuple[Network, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole node at one instant. Reading it touches no hardware."""

    node: str
    at: float
    simulated: bool = False
    boot: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    host: Host = Host()
    devices: tuple[DeviceStatus, ...] = ()
    faults: tuple[Fault, ...] = ()
    events: "tuple[Event, ...]" = ()  # since this session's last snapshot; not part of the JSON


def _share(part: float | None, whole: float | None) -> float | None:
    if part is None or not whole:
        return None
    return round(100.0 * part / whole, 1)
