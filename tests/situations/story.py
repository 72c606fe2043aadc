"""What a situation is, and the small builders with which the table tells one."""

from collections.abc import Iterable, Mapping
from typing import TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from andon.model.device import (
    SAMPLE_VALUES,
    Device,
    DeviceStatus,
    Fault,
    Host,
    Limits,
    MemoryKind,
    Process,
    ProcessKind,
    Sample,
    Snapshot,
    State,
)

MIB = 1024**2
GIB = 1024**3
MINUTE = 60.0
HOUR = 3600.0
DAY = 24 * HOUR
NOW = 1_790_000_000.0
"""When the newest look of every situation is taken."""


class Situation(Struct, frozen=True):
    """One story that somebody told about a GPU, and what a helpful expert answers first."""

    name: str
    source: str
    snapshots: tuple[Snapshot, ...]
    device: str
    expect: str
    also: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()
    blames: int | None = None
    mentions: tuple[str, ...] = ()


# Devices


class Model(Struct, frozen=True):
    """A card as it is sold: what it states of itself, and how it looks when nothing runs."""

    name: str
    memory_bytes: int
    slowdown_celsius: int
    watts: float
    pcie_generation: int
    sm_clock_mhz: int
    memory_clock_mhz: int
    idle_celsius: int
    idle_watts: float
    idle_state: int = 8
    idle_fan: int | None = None  # None: it has none, the chassis blows
    hbm: bool = False
    ecc: bool = True
    width: int = 16
    vendor: str = "nvidia"
    kind: MemoryKind = MemoryKind.DEVICE


H200 = Model("NVIDIA H200", 143_771 * MIB, 89, 700, 5, 1980, 3201, 31, 76, 0, hbm=True)
A100 = Model("NVIDIA A100-SXM4-80GB", 81_920 * MIB, 89, 400, 4, 1410, 1593, 33, 61, 0, hbm=True)
A100_PCIE = Model(
    "NVIDIA A100 80GB PCIe", 81_920 * MIB, 90, 300, 4, 1410, 1512, 35, 45, 0, hbm=True
)
V100 = Model("Tesla V100-SXM2-32GB", 32_768 * MIB, 87, 300, 3, 1530, 877, 36, 42, 0, hbm=True)
T4 = Model("Tesla T4", 15_360 * MIB, 93, 70, 3, 1590, 5001, 41, 10)
RTX_4090 = Model(
    "NVIDIA GeForce RTX 4090", 24_564 * MIB, 92, 450, 4, 3105, 10_501, 34, 18, idle_fan=0, ecc=False
)
RTX_3090 = Model(
    "NVIDIA GeForce RTX 3090", 24_576 * MIB, 95, 350, 4, 2100, 9751, 36, 22, idle_fan=0, ecc=False
)
RTX_4060 = Model(
    "NVIDIA GeForce RTX 4060",
    8_188 * MIB,
    92,
    115,
    4,
    3105,
    8501,
    37,
    9,
    idle_fan=0,
    ecc=False,
    width=8,
)
RTX_PRO = Model(
    "NVIDIA RTX PRO 6000 Blackwell", 97_887 * MIB, 92, 600, 5, 3090, 14_001, 35, 20, idle_fan=30
)
LAPTOP = Model(
    "NVIDIA GeForce RTX 3070 Laptop GPU", 8_192 * MIB, 97, 115, 4, 2100, 7001, 44, 11, ecc=False
)
MI100 = Model(
    "AMD Instinct MI100", 32_752 * MIB, 100, 290, 4, 1502, 1200, 53, 38, 0, hbm=True, vendor="amd"
)
GB10 = Model(
    "NVIDIA GB10", 0, 95, 140, 5, 3003, 8533, 36, 4, ecc=False, width=1, kind=MemoryKind.UNIFIED
)


def card(model: Model, index: int = 0) -> Device:
    """The `index`-th card of this model in its node."""
    word = model.name.rsplit(maxsplit=1)[-1].lower().replace("-", "")
    unified = model.kind is MemoryKind.UNIFIED
    return Device(
        uuid=f"GPU-{word}-0000-4000-8000-{index:012d}",
        index=index,
        vendor=model.vendor,
        name=model.name,
        pci=f"0000:{0x17 + 0x10 * index:02x}:00.0",
        memory_kind=model.kind,
        memory_total_bytes=None if unified else model.memory_bytes,
        limits=Limits(
            slowdown_celsius=model.slowdown_celsius,
            power_default_watts=None if unified else model.watts,
            pcie_generation=model.pcie_generation,
            pcie_width=model.width,
            sm_clock_mhz=model.sm_clock_mhz,
        ),
    )


def slotted(device: Device, generation: int, width: int) -> Device:
    """The card in a slot that offers this link."""
    limits = replace(device.limits, pcie_slot_generation=generation, pcie_slot_width=width)
    return replace(device, limits=limits)


class Values(TypedDict, total=False):
    """The readings that a story may set."""

    utilization_percent: int | None
    memory_utilization_percent: int | None
    memory_used_bytes: int | None
    memory_free_bytes: int | None
    memory_reserved_bytes: int | None
    temperature_celsius: int | None
    memory_temperature_celsius: int | None
    power_watts: float | None
    power_limit_watts: float | None
    energy_joules: float | None
    fan_percent: int | None
    sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    throttle: tuple[str, ...] | None
    encoder_percent: int | None
    decoder_percent: int | None
    pcie_generation: int | None
    pcie_width: int | None
    ecc_uncorrected: int | None
    performance_state: int | None
    sm_active_percent: float | None
    tensor_active_percent: float | None


def idle(model: Model, **values: Unpack[Values]) -> Sample:
    """The model with nothing to do, except for `values`."""
    unified = model.kind is MemoryKind.UNIFIED
    sleeps = model.idle_state > 0
    base = Sample(
        at=NOW,
        utilization_percent=0,
        memory_utilization_percent=0,
        memory_used_bytes=None if unified else 0,
        memory_reserved_bytes=None if unified else 640 * MIB,
        temperature_celsius=model.idle_celsius,
        memory_temperature_celsius=model.idle_celsius + 6 if model.hbm else None,
        power_watts=model.idle_watts,
        power_limit_watts=None if unified else model.watts,
        energy_joules=4.0e6,
        fan_percent=model.idle_fan,
        sm_clock_mhz=210 if sleeps else 345,
        memory_clock_mhz=405 if sleeps else model.memory_clock_mhz,
        throttle=("gpu_idle",),
        encoder_percent=0,
        decoder_percent=0,
        pcie_generation=1 if sleeps else model.pcie_generation,
        pcie_width=model.width,
        ecc_uncorrected=0 if model.ecc else None,
        performance_state=model.idle_state,
    )
    return _free(model, replace(base, **values))


def work(model: Model, **values: Unpack[Values]) -> Sample:
    """The model hard at work and healthy, a little under its power limit, except for `values`."""
    base = Sample(
        at=NOW,
        utilization_percent=98,
        memory_utilization_percent=52,
        memory_used_bytes=model.memory_bytes // 2,
        memory_reserved_bytes=640 * MIB,
        temperature_celsius=64,
        memory_temperature_celsius=72 if model.hbm else None,
        power_watts=round(model.watts * 0.8, 1),
        power_limit_watts=model.watts,
        energy_joules=9.0e7,
        fan_percent=None if model.idle_fan is None else 42,
        sm_clock_mhz=round(model.sm_clock_mhz * 0.95),
        memory_clock_mhz=model.memory_clock_mhz,
        throttle=(),
        encoder_percent=0,
        decoder_percent=0,
        pcie_generation=model.pcie_generation,
        pcie_width=model.width,
        ecc_uncorrected=0 if model.ecc else None,
        performance_state=0,
    )
    return _free(model, replace(base, **values))


def _free(model: Model, sample: Sample) -> Sample:
    used, reserved = sample.memory_used_bytes, sample.memory_reserved_bytes
    if used is None or reserved is None:
        return sample
    return replace(sample, memory_free_bytes=max(0, model.memory_bytes - used - reserved))


# Processes


def process(
    pid: int,
    memory: int | None,
    utilization: int | None = 0,
    *,
    age: float = 2 * HOUR,
    user: str | None = "ada",
    name: str | None = "python",
    command: str | None = "python train.py",
    kind: ProcessKind = ProcessKind.COMPUTE,
    container: str | None = None,
    job: str | None = None,
    lease: str | None = None,
) -> Process:
    """A process that began `age` seconds before the newest look."""
    return Process(
        pid=pid,
        kind=kind,
        started=NOW - age,
        name=name,
        user=user,
        command=command,
        memory_bytes=memory,
        utilization_percent=utilization,
        container=container,
        job=job,
        lease=lease,
    )


def graphics(
    pid: int, name: str, memory: int, utilization: int = 0, age: float = 3 * DAY
) -> Process:
    """A part of somebody's desktop."""
    return process(
        pid,
        memory,
        utilization,
        age=age,
        name=name,
        command=f"/usr/bin/{name}",
        kind=ProcessKind.GRAPHICS,
    )


def stranger(pid: int, memory: int | None, utilization: int | None = 0) -> Process:
    """A process that the driver names and this pid namespace cannot see."""
    unseen = process(pid, memory, utilization, user=None, name=None, command=None)
    return replace(unseen, started=None)


# Looks

_USUAL = {
    "fan_percent": "this device has no fan of its own",
    "memory_temperature_celsius": "not supported by this device",
    "ecc_uncorrected": "not supported by this device",
    "sm_active_percent": "read only while someone is watching",
    "tensor_active_percent": "read only while someone is watching",
}


def seen(
    device: Device,
    sample: Sample | None,
    *processes: Process,
    missing: Mapping[str, str] | None = None,
    state: State = State.OK,
    since: float = NOW - 9 * DAY,
    reason: str | None = None,
    hint: str | None = None,
) -> DeviceStatus:
    """How one look shows a device; every value that is not known gets its reason."""
    blanks = [n for n in SAMPLE_VALUES if sample is not None and getattr(sample, n) is None]
    why = {name: _USUAL.get(name, "not supported by this device") for name in blanks}
    return DeviceStatus(
        device=device,
        state=state,
        since=since,
        reason=reason,
        hint=hint,
        cuda_index=device.index,
        sample=sample,
        missing=why | dict(missing or {}),
        processes=processes,
    )


def lost(device: Device, sample: Sample, ago: float = 10 * MINUTE) -> DeviceStatus:
    """A card that the driver has given up; its last sample is from before."""
    return seen(
        device,
        replace(sample, at=NOW - ago),
        state=State.LOST,
        since=NOW - ago,
        reason="the driver says that the GPU is lost (NVML error 15)",
        hint="look for Xid 79 in the kernel log; a reset or a reboot is needed",
    )


def stale(
    device: Device, sample: Sample | None, *processes: Process, ago: float = 90.0
) -> DeviceStatus:
    """A card that was asked `ago` seconds before the newest look and has not answered since."""
    return seen(
        device,
        None if sample is None else replace(sample, at=NOW - ago),
        *processes,
        state=State.STALE,
        since=NOW - ago,
        reason="asked, and no answer yet",
    )


def asleep(device: Device) -> DeviceStatus:
    """A card that the system has suspended, and that nobody woke to ask."""
    return seen(
        device,
        None,
        state=State.ASLEEP,
        since=NOW - 2 * HOUR,
        reason="suspended by the system to save power",
    )


class Frame(Struct, frozen=True):
    """One look at a node, before it is given its time."""

    devices: tuple[DeviceStatus, ...]
    cpu: float = 9.0
    faults: tuple[Fault, ...] = ()
    memory_used: int = 41 * GIB


def frame(
    *devices: DeviceStatus,
    cpu: float = 9.0,
    faults: tuple[Fault, ...] = (),
    memory_used: int = 41 * GIB,
) -> Frame:
    return Frame(devices, cpu, faults, memory_used)


def film(frames: Iterable[Frame], every: float = 1.0) -> tuple[Snapshot, ...]:
    """The frames as snapshots, oldest first, `every` seconds apart; the last one is now."""
    shots = tuple(frames)
    return tuple(
        _shot(shot, NOW - every * (len(shots) - 1 - place)) for place, shot in enumerate(shots)
    )


def still(
    *devices: DeviceStatus,
    cpu: float = 9.0,
    faults: tuple[Fault, ...] = (),
    memory_used: int = 41 * GIB,
    looks: int = 3,
    every: float = 1.0,
) -> tuple[Snapshot, ...]:
    """The same picture in every look."""
    return film([frame(*devices, cpu=cpu, faults=faults, memory_used=memory_used)] * looks, every)


def _shot(shot: Frame, at: float) -> Snapshot:
    return Snapshot(
        node="gpu01",
        at=at,
        boot="6f1c2c1e-8f0a-4d4e-9d34-1f2f0f3f4f5f",
        versions={} if shot.faults and not shot.devices else {"nvidia": "580.159.04"},
        host=Host(
            cpu_percent=shot.cpu,
            memory_used_bytes=shot.memory_used,
            memory_total_bytes=128 * GIB,
            load_1m=round(shot.cpu * 0.32, 2),
        ),
        devices=tuple(_timed(status, at) for status in shot.devices),
        faults=shot.faults,
    )


def _timed(status: DeviceStatus, at: float) -> DeviceStatus:
    sample = status.sample
    if sample is None or status.state is not State.OK:
        return status
    energy = sample.energy_joules
    if energy is not None and sample.power_watts is not None:
        energy += sample.power_watts * (at - NOW)
    return replace(status, sample=replace(sample, at=at, energy_joules=energy))
