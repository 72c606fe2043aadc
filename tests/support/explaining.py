"""A node of one H200, or of others, to be explained."""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from andon.explain.evidence.reasons import Reason
from andon.explain.why import explain
from andon.model.device import (
    Device,
    DeviceStatus,
    Host,
    Limits,
    Process,
    Sample,
    Snapshot,
    State,
)
from andon.units import GIB

AT = 1_763_170_867.0
UUID = "GPU-0"
TOTAL = 140 * GIB
H200 = Limits(
    slowdown_celsius=89,
    power_default_watts=700.0,
    pcie_generation=5,
    pcie_width=16,
    sm_clock_mhz=1980,
)
TRAINING: dict[str, object] = {
    "utilization_percent": 99,
    "memory_utilization_percent": 55,
    "memory_used_bytes": 100 * GIB,
    "memory_free_bytes": 39 * GIB,
    "temperature_celsius": 66,
    "power_watts": 600.0,
    "power_limit_watts": 700.0,
    "sm_clock_mhz": 1905,
    "throttle": (),
    "pcie_generation": 5,
    "pcie_width": 16,
    "ecc_uncorrected": 0,
}
IDLE: dict[str, object] = {
    **TRAINING,
    "utilization_percent": 0,
    "memory_utilization_percent": 0,
    "memory_used_bytes": 0,
    "memory_free_bytes": 139 * GIB,
    "temperature_celsius": 34,
    "power_watts": 76.0,
    "sm_clock_mhz": 345,
    "throttle": ("gpu_idle",),
}
ALICE = Process(
    101, started=AT - 12_000, name="python", user="alice", memory_bytes=100 * GIB,
    utilization_percent=97,
)  # fmt: skip
BOB = Process(
    202, started=AT - 90_000, name="jupyter", user="bob", memory_bytes=30 * GIB,
    utilization_percent=0,
)  # fmt: skip


def card(
    values: dict[str, object], *processes: Process, at: float = AT, number: int = 0, **more: object
) -> DeviceStatus:
    device = Device(f"GPU-{number}", number, "nvidia", "NVIDIA H200", None, None)
    device = replace(device, memory_total_bytes=TOTAL, limits=H200)
    if not processes and values.get("utilization_percent") == 99:
        processes = (ALICE,)
    sample = Sample(at=at, **{**values, **more})  # type: ignore[arg-type]
    return DeviceStatus(device, State.OK, AT - 999, sample=sample, processes=processes)


def node(*devices: DeviceStatus, at: float = AT, cpu: float | None = None) -> Snapshot:
    return Snapshot("n", at, host=Host(cpu_percent=cpu), devices=devices)


def film(
    count: int, step: float, frame: Callable[[int], dict[str, object]], *processes: Process
) -> list[Snapshot]:
    """A past that ends now."""
    times = [AT - step * (count - 1 - number) for number in range(count)]
    return [node(card(frame(k), *processes, at=at), at=at) for k, at in enumerate(times)]


def why(*devices: DeviceStatus, uuid: str = UUID) -> list[Reason]:
    return list(explain([node(*devices)], uuid))


def codes(reasons: Iterable[Reason]) -> list[str]:
    return [reason.code for reason in reasons]


def of(code: str, reasons: Iterable[Reason]) -> Reason:
    return next(reason for reason in reasons if reason.code is code)
