"""Validates readings: an impossible value becomes unknown, with the reason.

Drivers report "unknown" with all bits set, and broken ones report anything. Such a number must not
be stored, exported, scored or alerted on, so every sample is checked here first. The bounds are
generous: what is merely odd is for `doctor/rules/selftest/plausibility`.
"""

import math
from collections.abc import Mapping
from operator import attrgetter, le
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from andon.model.device import (
    HOST_VALUES,
    SAMPLE_VALUES,
    Device,
    DeviceStatus,
    Host,
    Limits,
    MemoryKind,
    Process,
    Sample,
    Snapshot,
)
from andon.units import unit_of

_MOST_BYTES: Final = 1 << 50  # 1 PiB: far above any device, below every 64-bit sentinel
_ALL_ONES: Final = frozenset({0xFFFFFFFF, 0x7FFFFFFF})  # 4 GiB minus one byte is never a real size
IMPOSSIBLE: Final = ", which is impossible"
"""The end of the reason for every impossible value."""
MEMORY_MISSING: Final = "processes.memory_bytes"
SHARES_MISSING: Final = "processes.utilization_percent"
MEMORY_SHARE: Final = 1.01  # parts are rounded separately
_SUM_SHARE: Final = 1.05  # used and free are read one after the other


class Bounds(Struct, frozen=True):
    """The range of possible values, and the reason for it."""

    low: float
    high: float
    unit: str
    reason: str


_PERCENT = Bounds(0, 100, "%", "a share of the time")
_MEASURED_PERCENT = Bounds(0, 101, "%", "a quotient of two counters, read at different times")
_CELSIUS = Bounds(-50, 250, "°C", "above solder's melting point; 255 is a byte")
_WATTS = Bounds(0, 10_000, "W", "the largest boards draw 1 to 3 kW")
_BYTES = Bounds(0, _MOST_BYTES, "bytes", "and no more than the device has")
_GENERATION = Bounds(0, 16, "", "PCIe 7 is the latest")
_WIDTH = Bounds(0, 64, "", "32 lanes are the most")
_SM_CLOCK = Bounds(0, 20_000, "MHz", "today's are below 4 GHz")
_COUNT = Bounds(0, 1 << 30, "", "more is a sentinel")
_BY_UNIT: Final[Mapping[str, Bounds]] = {
    "percent": _PERCENT,
    "bytes": _BYTES,
    "celsius": _CELSIUS,
    "watts": _WATTS,
    "joules": Bounds(0, 1e14, "J", "10 kW for 300 years"),
    "mhz": Bounds(0, 100_000, "MHz", "some count every transfer per cycle"),
    "bytes_per_second": Bounds(0, 1e13, "bytes/s", "the fastest links carry 2 TB/s"),
}
_ITS_OWN: Final[Mapping[str, Bounds]] = {
    "fan_percent": Bounds(0, 200, "%", "NVML: it may exceed 100 in certain cases"),
    "sm_clock_mhz": _SM_CLOCK,
    "pcie_generation": _GENERATION,
    "pcie_width": _WIDTH,
    "ecc_uncorrected": Bounds(0, 1 << 30, "errors", "a device is replaced after a handful"),
    "performance_state": Bounds(0, 31, "", "P0 to P15; 32 is NVML's unknown"),
    "sm_active_percent": _MEASURED_PERCENT,
    "tensor_active_percent": _MEASURED_PERCENT,
}
BOUNDS: Final[Mapping[str, Bounds]] = {
    name: _ITS_OWN.get(name) or _BY_UNIT.get(unit_of(name), _COUNT)
    for name in SAMPLE_VALUES
    if name != "throttle"
}
"""Every number of a sample: by its unit, unless more is known."""

LIMIT_BOUNDS: Final[Mapping[str, Bounds]] = {
    "slowdown_celsius": Bounds(1, 250, "°C", "no device slows down when cold"),
    "power_default_watts": _WATTS,
    "pcie_generation": _GENERATION,
    "pcie_width": _WIDTH,
    "pcie_slot_generation": _GENERATION,
    "pcie_slot_width": _WIDTH,
    "sm_clock_mhz": _SM_CLOCK,
}
"""What a device reports about itself."""

_RATE = _BY_UNIT["bytes_per_second"]
HOST_BOUNDS: Final[Mapping[str, Bounds]] = {
    "cpu_percent": _MEASURED_PERCENT,
    "load_1m": Bounds(0, 1e6, "", "one for each process that runs or waits"),
    "memory_pressure_percent": _MEASURED_PERCENT,
    **{name: _RATE for name in HOST_VALUES if unit_of(name) == "bytes_per_second"},
}
"""The numbers of a node, without its memory."""

_MEMORY: Final = ("memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes")
_values = attrgetter(*BOUNDS)
_limits = attrgetter(*LIMIT_BOUNDS)
_LOWS = tuple(bounds.low for bounds in BOUNDS.values())
_HIGHS = tuple(bounds.high for bounds in BOUNDS.values())
_FIRST = list(BOUNDS).index(_MEMORY[0])
_MEMORY_PART: Final = slice(_FIRST, _FIRST + len(_MEMORY))


def wrong_values(sample: Sample, device: Device) -> Mapping[str, str]:
    """Returns the reason for each impossible value; empty for nearly every sample."""
    return {} if _is_sound(sample, device) else _wrong(sample, device)


def without(sample: Sample, wrong: Mapping[str, str]) -> Sample:
    """Returns the sample with these values unknown."""
    read_at = {name: at for name, at in sample.read_at.items() if name not in wrong}
    unknown: dict[str, Any] = dict.fromkeys(wrong)
    return replace(sample, read_at=read_at, **unknown)


def checked_processes(
    processes: tuple[Process, ...], device: Device
) -> tuple[tuple[Process, ...], Mapping[str, str]]:
    """Returns the processes, and why values of some are unknown; the same object if none is."""
    most, reasons = _most_memory(device), {}
    if all(_process_is_sound(process, most) for process in processes):
        return processes, {}
    for process in processes:
        memory, share = process.memory_bytes, process.utilization_percent
        if not _memory_within(memory, most):
            reasons[MEMORY_MISSING] = _reason(memory, _BYTES, device, process)
        if not _within(share, _PERCENT):
            reasons[SHARES_MISSING] = _reason(share, _PERCENT, None, process)
    return tuple(_plain_process(process, most) for process in processes), reasons


def checked_device(device: Device) -> tuple[Device, Mapping[str, str]]:
    """Returns the device, and why facts of it are unknown; the same object if all are valid."""
    wrong = {
        name: _reason(value, bounds)
        for (name, bounds), value in zip(LIMIT_BOUNDS.items(), _limits(device.limits), strict=True)
        if not _within(value, bounds)
    }
    total, reasons = device.memory_total_bytes, {f"limits.{name}": w for name, w in wrong.items()}
    if not _memory_within(total, _MOST_BYTES) or total == 0:
        reasons["memory_total_bytes"] = _reason(total, _BYTES)
        device = replace(device, memory_total_bytes=None)
    if wrong:
        values = asdict(device.limits)
        limits = Limits(**{name: None if name in wrong else v for name, v in values.items()})
        device = replace(device, limits=limits)
    return device, reasons


def checked_snapshot(snapshot: Snapshot) -> Snapshot:
    """Returns a snapshot of another machine or a file, with impossible values unknown."""
    return replace(
        snapshot,
        host=checked_host(snapshot.host),
        devices=tuple(_checked_status(status) for status in snapshot.devices),
    )


def checked_host(host: Host) -> Host:
    """Returns a host's values from a recording or another machine, with impossible ones unknown."""
    wrong = {
        name: _reason(value, bounds, of="the node")
        for name, bounds in HOST_BOUNDS.items()
        if not _within(value := getattr(host, name), bounds)
    }
    total = host.memory_total_bytes or _MOST_BYTES
    for name, most in (("memory_used_bytes", total), ("memory_total_bytes", _MOST_BYTES)):
        if not _memory_within(value := getattr(host, name), most):
            wrong[name] = _reason(value, _BYTES, of="the node")
    unknown: dict[str, Any] = dict.fromkeys(wrong)
    return replace(host, missing={**host.missing, **wrong}, **unknown) if wrong else host


def _checked_status(status: DeviceStatus) -> DeviceStatus:
    device, reasons = checked_device(status.device)
    sample = status.sample
    wrong = {} if sample is None else wrong_values(sample, device)
    processes, odd = checked_processes(status.processes, device)
    return replace(
        status,
        device=device,
        sample=without(sample, wrong) if sample is not None and wrong else sample,
        missing={**status.missing, **wrong, **reasons, **odd},
        processes=processes,
    )


def _is_sound(sample: Sample, device: Device) -> bool:
    """Whether all values are possible; nearly always true for every device and sample, so it is
    fast and gives no reason."""
    values = [value or 0 for value in _values(sample)]  # every range contains 0; NaN stays NaN
    if not (all(map(le, _LOWS, values)) and all(map(le, values, _HIGHS))):
        return False
    total = device.memory_total_bytes or _MOST_BYTES
    used, free, _ = memory = values[_MEMORY_PART]
    if max(memory) > MEMORY_SHARE * total or not _ALL_ONES.isdisjoint(memory):
        return False
    return used + free <= total or not _sum_is_wrong(sample, device)


def _wrong(sample: Sample, device: Device) -> dict[str, str]:
    """Returns the reason for each impossible value."""
    most, wrong = _most_memory(device), {}
    for name, bounds in BOUNDS.items():
        value = getattr(sample, name)
        fits = _memory_within(value, most) if name in _MEMORY else _within(value, bounds)
        if not fits:
            wrong[name] = _reason(value, bounds, device if name in _MEMORY else None)
    if not wrong.keys() & set(_MEMORY) and _sum_is_wrong(sample, device):
        used, free = sample.memory_used_bytes, sample.memory_free_bytes
        reason = f"the driver reported {used} bytes used and {free} free{_of(device)}"
        wrong |= dict.fromkeys(_MEMORY[:2], reason + IMPOSSIBLE)
    return wrong


def _sum_is_wrong(sample: Sample, device: Device) -> bool:
    used, free, total = sample.memory_used_bytes, sample.memory_free_bytes, _total(device)
    if used is None or free is None or total is None:
        return False
    return device.memory_kind is MemoryKind.DEVICE and used + free > _SUM_SHARE * total


def _total(device: Device) -> int | None:
    return device.memory_total_bytes or None


def _most_memory(device: Device) -> float:
    return MEMORY_SHARE * (_total(device) or _MOST_BYTES)


def _within(value: float | None, bounds: Bounds) -> bool:
    return value is None or bounds.low <= value <= bounds.high


def _memory_within(value: float | None, most: float) -> bool:
    return value is None or (0 <= value <= most and value not in _ALL_ONES)


def _process_is_sound(process: Process, most: float) -> bool:
    share = process.utilization_percent
    return (share is None or 0 <= share <= 100) and _memory_within(process.memory_bytes, most)


def _plain_process(process: Process, most: float) -> Process:
    share = process.utilization_percent
    return replace(
        process,
        utilization_percent=share if _within(share, _PERCENT) else None,
        memory_bytes=process.memory_bytes if _memory_within(process.memory_bytes, most) else None,
    )


def _reason(
    value: float | None,
    bounds: Bounds,
    device: Device | None = None,
    process: Process | None = None,
    of: str = "the driver",
) -> str:
    number = f"{value:g}" if isinstance(value, float) and math.isfinite(value) else str(value)
    whole = _of(device) if device is not None else ""
    whose = "" if process is None else f" for process {process.pid}"
    return f"{of} reported {number} {bounds.unit}".rstrip() + whole + whose + IMPOSSIBLE


def _of(device: Device) -> str:
    return "" if _total(device) is None else f" of {_total(device)}"
