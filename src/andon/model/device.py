"""Devices, samples, processes and snapshots.

The types of fields are strings until they are needed: evaluating them takes longer than the rest of
the module, and only reading other programs' JSON needs them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from andon.model.codec import (
    Amount,
    Index,
    Name,
    Names,
    Number,
    Pid,
    Signed,
    Text,
    Texts,
    Time,
    Whole,
)
from andon.model.event import Event, Party
from andon.model.place import NO_PLACE, DevicePlace
from andon.model.programs import program_of
from andon.model.shapes import Doc
from andon.model.throttling import REASONS
from andon.model.utilisation import Band, band
from andon.units import counted, human_bytes, iso_utc, unit_of

NAMES_MISSING = "processes.names"
"""The key of `missing` for the reason why listed processes have no name."""
COMMANDS_MISSING = "command"
"""The key of `missing` for the reason why command lines are withheld."""
UNWATCHED = "read only while someone is watching"
"""The reason in `missing` for readings that are too expensive to take all the time."""
SNAPSHOT = "andon.snapshot/1"
"""The schema of a snapshot's JSON."""
SHARE_NAMES = ("memory_percent", "power_percent")
"""What the JSON of a sample adds to its values: it is computed."""
MOST_REASONS, MOST_DEVICES = 64, 4096
Reasons = Annotated[tuple[Name, ...], Meta(max_length=MOST_REASONS)]


class State(StrEnum):
    """State of a device at its last reading."""

    OK = "ok"
    STALE = "stale"  # no answer yet
    LOST = "lost"  # reported as lost by the driver
    ASLEEP = "asleep"  # suspended by the system and not woken
    UNKNOWN = "unknown"  # its node does not report to the hub that shows it

    @property
    def text(self) -> str:
        """The state as people read it, the same on every surface."""
        return "not responding" if self is State.STALE else str(self)


NO_ANSWER = frozenset((State.STALE, State.LOST, State.UNKNOWN))
"""What a device does is not known then."""


class MemoryKind(StrEnum):
    """Whether the device has memory of its own or uses the system's."""

    DEVICE = "device"
    UNIFIED = "unified"


class ProcessKind(StrEnum):
    """What a process uses the device for; MPS clients compute."""

    COMPUTE = "compute"
    GRAPHICS = "graphics"


class FaultCode(StrEnum):
    """Why a reader fails, for programs. A backend of a third party may leave it out."""

    VERSION_MISMATCH = "version_mismatch"
    NO_PERMISSION = "no_permission"
    NO_DRIVER = "no_driver"  # not installed, or not loaded
    NO_DEVICE = "no_device"  # the driver runs, and lists none
    DRIVER_FAILED = "driver_failed"
    NOT_RESPONDING = "not_responding"
    READER_ENDED = "reader_ended"
    OTHER_BACKEND = "other_backend"  # the same cards are read in another way


SAMPLER = "sampler"
"""The source of a fault of sampling itself: nothing is known about any driver."""
_CODES = ", ".join(f"`{one}`" for one in FaultCode)


class Fault(Struct, frozen=True):
    """A reader that failed this time; the rest of the snapshot is valid."""

    source: Annotated[Name, Doc("the vendor")]
    reason: Text
    hint: Annotated[Text, Doc("what to do")] = ""
    code: Annotated[Name, Doc(f"the reason for programs: {_CODES}, or empty")] = ""
    cards: Annotated[
        Whole | None,
        Doc("how many of its cards the system lists, without those given to virtual machines"),
    ] = None
    device_files: Annotated[
        bool | None, Doc("whether its device files exist, such as /dev/nvidia0")
    ] = None
    container: Annotated[
        Name | None, Doc("the kind of container that andon runs in; empty if it runs in none")
    ] = None


class Card(Struct, frozen=True):
    """One board, which is read, and can hang, separately: a device and its partitions."""

    key: Name
    index: Index
    pci: Name | None = None
    name: Name | None = None


class Limits(Struct, frozen=True):
    """The limits that the device reports."""

    slowdown_celsius: Annotated[Signed | None, Doc("where it starts to slow down")] = None
    power_default_watts: Annotated[Number | None, Doc("the default power limit")] = None
    pcie_generation: Annotated[Signed | None, Doc("the fastest link of the card")] = None
    pcie_width: Annotated[Signed | None, Doc("the widest link of the card")] = None
    sm_clock_mhz: Annotated[Signed | None, Doc("the highest clock of the processors")] = None
    pcie_slot_generation: Annotated[
        Signed | None, Doc("the fastest link of its slot, where the kernel knows it")
    ] = None
    pcie_slot_width: Annotated[
        Signed | None, Doc("the widest link of its slot, where the kernel knows it")
    ] = None

    @property
    def link_generation(self) -> int | None:
        """The fastest link of card and slot together."""
        return _lower(self.pcie_generation, self.pcie_slot_generation)

    @property
    def link_width(self) -> int | None:
        """The widest link of card and slot together."""
        return _lower(self.pcie_width, self.pcie_slot_width)


class Setup(Struct, frozen=True):
    """How the driver runs the device. None means unknown; the reason is in `missing`."""

    persistence: Annotated[
        bool | None, Doc("whether the driver stays ready while nothing uses the device")
    ] = None
    ecc: Annotated[bool | None, Doc("whether its memory corrects errors (ECC)")] = None
    ecc_pending: Annotated[bool | None, Doc("the same from the next reboot on")] = None
    start_seconds: Annotated[
        Amount | None, Doc("how long the driver took to start when andon opened it")
    ] = None
    missing: Annotated[Texts, Doc("name → reason, for every `null` here")] = field(
        default_factory=dict
    )

    def __hash__(self) -> int:
        return hash((self.persistence, self.ecc, self.ecc_pending, self.start_seconds))


SETUP_VALUES = Setup.__struct_fields__[:-1]


def unknown_setup(reason: str) -> Setup:
    """Returns the setup of a device of which nothing is known, for this reason."""
    return Setup(missing=dict.fromkeys(SETUP_VALUES, reason))


NOT_READ = unknown_setup("not read through this backend")


class Device(Struct, frozen=True):
    """Static facts about a device."""

    json_without = ("place",)  # where it is in the machine
    uuid: Annotated[Name, Doc("its identity; `vendor@address` until the driver has reported it")]
    index: Annotated[Index, Doc("the number to display: the node's, not CUDA's")]
    vendor: Annotated[Name, Doc("such as `nvidia`; `sim` if it is simulated")]
    name: Annotated[Name, Doc("the model")]
    pci: Annotated[Name | None, Doc("the PCI address")] = None
    parent: Annotated[Name | None, Doc("the board's uuid, for a MIG instance")] = None
    memory_kind: Annotated[
        MemoryKind, Doc("`device`, or `unified` where the chip shares the system's memory")
    ] = MemoryKind.DEVICE
    memory_total_bytes: Annotated[Signed | None, Doc("its memory")] = None
    limits: Annotated[Limits, Doc("limits that the device reports")] = Limits()
    setup: Annotated[Setup, Doc("how the driver runs it")] = NOT_READ
    place: DevicePlace = NO_PLACE

    def __repr__(self) -> str:
        return f"<Device {self.index}: {self.name}, {self.uuid}>"


_THROTTLE = (
    f"why the clocks are not higher: {', '.join(f'`{one.name}`' for one in REASONS)}, or a name of "
    "the driver's own; `[]` means no throttling"
)


class LastCheck(Struct, frozen=True):
    """The latest result of `andon check` for a device."""

    at: Time
    verdict: Name
    text: Text = ""


FAILED_CHECKS = frozenset(("wrong_results", "lost", "memory_errors", "hung"))
"""The verdicts of checks after which work on the device may be lost."""


class Sample(Struct, frozen=True):
    """One device at one instant. None means unknown; the reason is in `missing`."""

    at: Annotated[Time, Doc("when it was read")]
    utilization_percent: Annotated[
        Signed | None,
        Doc(
            "the share of time in which at least one kernel ran; not how much of the chip was used"
        ),
    ] = None
    memory_utilization_percent: Annotated[
        Signed | None, Doc("the share of time in which memory was read or written")
    ] = None
    memory_used_bytes: Annotated[Signed | None, Doc("without the driver's own reserve")] = None
    memory_free_bytes: Annotated[Signed | None, Doc("what can be allocated")] = None
    memory_reserved_bytes: Annotated[Signed | None, Doc("the driver's own reserve")] = None
    temperature_celsius: Annotated[Signed | None, Doc("of the chip")] = None
    memory_temperature_celsius: Annotated[Signed | None, Doc("of the memory")] = None
    power_watts: Annotated[Number | None, Doc("a one-second average on most cards")] = None
    power_limit_watts: Annotated[Number | None, Doc("the limit in force")] = None
    energy_joules: Annotated[Number | None, Doc("since the driver was loaded")] = None
    fan_percent: Annotated[Signed | None, Doc("share of the intended speed")] = None
    sm_clock_mhz: Annotated[Signed | None, Doc("clock of the processors")] = None
    memory_clock_mhz: Annotated[Signed | None, Doc("clock of the memory")] = None
    throttle: Annotated[Reasons | None, Doc(_THROTTLE)] = None
    encoder_percent: Annotated[Signed | None, Doc("use of the video encoder")] = None
    decoder_percent: Annotated[Signed | None, Doc("use of the video decoder")] = None
    pcie_generation: Annotated[
        Signed | None, Doc("of the current link; an idle card may lower it")
    ] = None
    pcie_width: Annotated[Signed | None, Doc("lanes of the current link")] = None
    ecc_uncorrected: Annotated[
        Signed | None,
        Doc("uncorrected memory errors since the driver was loaded"),
    ] = None
    performance_state: Annotated[Signed | None, Doc("0 is the fastest")] = None
    sm_active_percent: Annotated[
        Number | None,
        Doc("how much of the chip is active; read only while someone watches"),
    ] = None
    tensor_active_percent: Annotated[
        Number | None,
        Doc("how many tensor cores are active; read only while someone watches"),
    ] = None
    pcie_received_bytes_per_second: Annotated[
        Signed | None, Doc("received over PCIe since the last reading")
    ] = None
    pcie_sent_bytes_per_second: Annotated[
        Signed | None, Doc("sent over PCIe since the last reading")
    ] = None
    nvlink_received_bytes_per_second: Annotated[
        Signed | None,
        Doc("received over all NVLinks since the last reading"),
    ] = None
    nvlink_sent_bytes_per_second: Annotated[
        Signed | None, Doc("sent over all NVLinks since the last reading")
    ] = None
    read_at: Annotated[
        Mapping[Name, Time],
        Doc("field → time, for every value older than `at`: expensive values are read less often"),
    ] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Sample at {iso_utc(self.at)}: {readings_text(self) or 'no readings'}>"


def readings_text(sample: Sample) -> str:
    """Returns the four most common readings, if they are known: `97 %, 61.2 GiB used, 61 °C`."""
    shown = (
        (sample.utilization_percent, "{:.0f} %"),
        (sample.temperature_celsius, "{:.0f} °C"),
        (sample.power_watts, "{:.0f} W"),
    )
    found = [form.format(value) for value, form in shown if value is not None]
    if sample.memory_used_bytes is not None:
        found.insert(1, f"{human_bytes(sample.memory_used_bytes)} used")
    return ", ".join(found)


SAMPLE_VALUES = Sample.__struct_fields__[1:-1]
"""The values of a sample, in the order in which they are always listed."""


_LABELS = {
    "utilization_percent": "utilisation",
    "memory_utilization_percent": "memory utilisation",
    "memory_used_bytes": "memory",
    "sm_clock_mhz": "SM clock",
    "pcie_generation": "PCIe",
    "pcie_width": "PCIe width",
    "ecc_uncorrected": "uncorrected ECC errors",
    "sm_active_percent": "SM active",
    "tensor_active_percent": "tensor cores active",
    "pcie_received_bytes_per_second": "PCIe received",
    "pcie_sent_bytes_per_second": "PCIe sent",
    "nvlink_received_bytes_per_second": "NVLink received",
    "nvlink_sent_bytes_per_second": "NVLink sent",
}


def reading_label(name: str) -> str:
    """Returns the label of a value in tables: its name without the unit, if it has no other."""
    return _LABELS.get(name) or name.removesuffix(f"_{unit_of(name)}").replace("_", " ")


class Process(Struct, frozen=True):
    """An operating system process that uses a device; its identity is pid and start time."""

    json_members = ("pid", "started", ..., "program")
    pid: Annotated[Pid, Doc("as this system numbers it")]
    kind: Annotated[ProcessKind, Doc("`compute` or `graphics`")] = ProcessKind.COMPUTE
    started: Annotated[Time | None, Doc("when it was started; with `pid` its identity")] = None
    name: Annotated[
        Name | None, Doc("`null` for a process that is not visible in this namespace")
    ] = None
    user: Annotated[Name | None, Doc("its owner; `null` in the same cases as `name`")] = None
    command: Annotated[
        Text | None, Doc("its command line, secrets as `***`; `null` in the same cases as `name`")
    ] = None
    memory_bytes: Annotated[Signed | None, Doc("its part of the device's memory")] = None
    utilization_percent: Annotated[Signed | None, Doc("its part of the device's time")] = None
    container: Annotated[Name | None, Doc("its container, such as `docker:trainer`")] = None
    job: Annotated[Name | None, Doc("its job or unit, such as `slurm:42.0`")] = None
    lease: Annotated[Name | None, Doc("the id of the lease under which it runs")] = None

    @property
    def program(self) -> str | None:
        """Returns the name that people use for it, which is computed and never stored."""
        return program_of(self.command, self.name)


def party(process: Process) -> Party:
    """Returns the process as a party of an alert."""
    return Party(*(getattr(process, name) for name in Party.__struct_fields__))


def pids_of(processes: Iterable[Process]) -> set[int]:
    return {process.pid for process in processes}


class Reading(Struct, frozen=True):
    """One device's answer to one request."""

    uuid: str
    sample: Sample | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    processes: tuple[Process, ...] = ()
    state: State = State.OK
    reason: str | None = None
    hint: str | None = None


class DeviceStatus(Struct, frozen=True):
    """A device in a snapshot: its facts, its state, its latest reading."""

    device: Device
    state: Annotated[
        State,
        Doc(
            "`ok`: it answered. `stale`: it was asked and has not answered. `lost`: the driver "
            "reports it as lost. `asleep`: it is suspended and was not touched. "
            "`unknown`: its node does not report to the hub that was asked"
        ),
    ]
    since: Annotated[Time, Doc("since when it has been in that state")]
    reason: Annotated[Text | None, Doc("why it is in that state")] = None
    hint: Annotated[Text | None, Doc("what to do")] = None
    visible: Annotated[bool, Doc("whether this process's masks leave it visible")] = True
    cuda_index: Annotated[Index | None, Doc("its CUDA index here")] = None
    sample: Annotated[
        Sample | None,
        Doc(
            "the latest readings, below; `null` if it never answered. For a device that is not "
            "`ok` it is the last one, with its own `at`"
        ),
    ] = None
    missing: Annotated[
        Texts,
        Doc(
            "field → reason, for every `null` in the sample (and `processes`, where the list "
            "could not be read; `memory_total_bytes`, `limits.*`, `processes.memory_bytes` and "
            "`processes.utilization_percent`, where the driver reported an impossible value)"
        ),
    ] = field(default_factory=dict)
    processes: Annotated[
        tuple[Process, ...],
        Doc("the processes on it, below; empty while it does not answer, when they are not known"),
    ] = ()
    last_users: Annotated[
        Names,
        Doc("for a device that does not answer: whose processes were on it when it last did"),
    ] = ()
    pods: Annotated[
        Names,
        Doc(
            "the pods that have it, as the kubelet says: `namespace/pod/container`, also where no "
            "process runs; empty where there is no kubelet to ask"
        ),
    ] = ()
    check: Annotated[
        LastCheck | None,
        Doc("the latest check of it that this user made (`andon check`): `at`, `verdict`, `text`"),
    ] = None
    label: Name = ""  # set where its place in the list no longer tells it: see `device_labels`

    @property
    def answered(self) -> bool:
        """Whether the sample is from this reading."""
        return self.state is State.OK and self.sample is not None

    @property
    def check_failed(self) -> int:
        """1 if its last check found it broken."""
        return int(self.check is not None and self.check.verdict in FAILED_CHECKS)

    @property
    def band(self) -> Band | None:
        """How busy the device is now, in one word; None if that is unknown."""
        return band(self.sample.utilization_percent) if self.answered and self.sample else None

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
    def clock_loss_percent(self) -> float | None:
        """How far the SM clock is below the device's maximum; not rounded."""
        clock = self.sample.sm_clock_mhz if self.sample else None
        highest = self.device.limits.sm_clock_mhz
        return None if clock is None or not highest else 100.0 * (1 - clock / highest)

    @property
    def slowdown_margin_celsius(self) -> int | None:
        """How far it is from its slowdown temperature."""
        now = self.sample.temperature_celsius if self.sample else None
        slowdown = self.device.limits.slowdown_celsius
        return None if now is None or slowdown is None else slowdown - now

    @property
    def memory_unattributed_bytes(self) -> int | None:
        """Used memory that no listed process accounts for; None if either side is unknown."""
        spare = self.sample.memory_used_bytes if self.sample else None
        unknown = "processes" in self.missing or self.state in NO_ANSWER
        if spare is None or unknown:
            return None
        for process in self.processes:  # a plain loop: called for every device in every sample
            if process.memory_bytes is None:
                return None
            spare -= process.memory_bytes
        return max(0, spare)

    def __repr__(self) -> str:
        device = f"{self.device.index}: {self.device.name}, {self.state}"
        if self.sample is None or not self.answered:
            return f"<DeviceStatus {device}{f' ({self.reason})' if self.reason else ''}>"
        count = len(self.processes)
        processes = f"{count} process{'es' * (count != 1)}"
        text = ", ".join(filter(None, (device, readings_text(self.sample), processes)))
        return f"<DeviceStatus {text}>"


class Disk(Struct, frozen=True):
    """One local file system."""

    mount: Text
    used_bytes: Whole
    total_bytes: Whole


class Network(Struct, frozen=True):
    """One interface; the counters start when it comes up."""

    name: Name
    received_bytes: Whole
    sent_bytes: Whole


class DriverVersions(Struct, frozen=True):
    """The versions of one vendor's driver on a node."""

    vendor: Name
    modules: Annotated[Texts, Doc("kernel module → its version, for those loaded")]
    library: Annotated[
        Name | None, Doc("of the library on disk, which a program started now would load")
    ] = None


class Host(Struct, frozen=True):
    """The node's own values."""

    cpu_percent: Annotated[Number | None, Doc("utilisation of all CPUs together")] = None
    memory_used_bytes: Annotated[Signed | None, Doc("memory that is not available")] = None
    memory_total_bytes: Annotated[Signed | None, Doc("the system's memory")] = None
    load_1m: Annotated[Number | None, Doc("load average over one minute")] = None
    disk: Annotated[tuple[Disk, ...], Doc("the local file systems")] = ()
    network: Annotated[tuple[Network, ...], Doc("the interfaces")] = ()
    memory_pressure_percent: Annotated[
        Number | None,
        Doc("the share of the last 10 s in which a process waited for memory; Linux only"),
    ] = None
    drivers: Annotated[
        tuple[DriverVersions, ...] | None,
        Doc("the versions of the drivers that are loaded: `vendor`, `modules`, `library`"),
    ] = None
    disk_read_bytes_per_second: Annotated[
        Signed | None, Doc("read from all disks since the last reading")
    ] = None
    disk_written_bytes_per_second: Annotated[
        Signed | None, Doc("written to all disks since the last reading")
    ] = None
    network_received_bytes_per_second: Annotated[
        Signed | None,
        Doc("received by all network cards since the last reading"),
    ] = None
    network_sent_bytes_per_second: Annotated[
        Signed | None, Doc("sent by all network cards since the last reading")
    ] = None
    missing: Annotated[Texts, Doc("name → reason, for every number that is `null`")] = field(
        default_factory=dict
    )

    def __repr__(self) -> str:
        cpu = None if self.cpu_percent is None else f"CPU {self.cpu_percent:.0f} %"
        used = self.memory_used_bytes
        memory = None if used is None else f"{human_bytes(used)} of memory used"
        return f"<Host {', '.join(filter(None, (cpu, memory))) or 'of unknown values'}>"


HOST_VALUES = tuple(
    name for name in Host.__struct_fields__ if name not in ("disk", "network", "drivers", "missing")
)
"""The numbers of a node."""


class Snapshot(Struct, frozen=True):
    """A whole node at one instant. Reading it touches no hardware."""

    node: Annotated[Name, Doc("the machine's name")]
    at: Annotated[Time, Doc("when it was sampled")]
    simulated: Annotated[bool, Doc("whether any device is simulated")] = False
    boot: Annotated[Name | None, Doc("the system's boot id: counters restart when it changes")] = (
        None
    )
    versions: Annotated[Texts, Doc("driver and library versions, by name")] = field(
        default_factory=dict
    )
    host: Annotated[Host, Doc("the node's own values")] = Host()
    devices: Annotated[tuple[DeviceStatus, ...], Doc("one entry per device, below")] = ()
    faults: Annotated[
        tuple[Fault, ...],
        Doc(
            "readers (the processes that call a driver) that failed: `source`, `reason`, `hint`, "
            "`code`, and what the system itself shows of its cards; the rest is still valid"
        ),
    ] = ()
    events: tuple[Event, ...] = ()  # since this session's last snapshot; not part of the JSON

    @property
    def silence(self) -> str | None:
        """Why a hub has no current readings: the node does not report."""
        return next((one.reason for one in self.devices if one.state is State.UNKNOWN), None)

    def __repr__(self) -> str:
        states = Counter(str(status.state) for status in self.devices)
        devices = ", ".join(f"{count} {state}" for state, count in states.items()) or "no device"
        faults = f", {counted(len(self.faults), 'fault')}" if self.faults else ""
        mark = " SIMULATED" if self.simulated else ""
        return f"<Snapshot of {self.node} at {iso_utc(self.at)}: {devices}{faults}{mark}>"


def _lower(own: int | None, slot: int | None) -> int | None:
    """Returns the lower value; an unknown slot does not limit the card."""
    return own if own is None or not slot else min(own, slot)


def _share(part: float | None, whole: float | None) -> float | None:
    if part is None or not whole:
        return None
    share = 100.0 * part / whole
    return round(share, 1) if share < math.inf else None  # of almost nothing; JSON has no infinity
