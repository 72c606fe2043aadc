"""Reads `nvidia-smi --query-gpu=… --format=csv`, asking only for what its version knows."""

import re
from collections.abc import Iterable
from typing import Final

from andon.backends.nvidia_smi import texts
from andon.backends.nvidia_smi.report import Gpu, Report, Use
from andon.backends.nvidia_smi.texts import NOT_REPORTED, Unknown, Value
from andon.model.device import ProcessKind

FORMAT: Final = "--format=csv,noheader,nounits"
APPS: Final = ("gpu_uuid", "pid", "used_memory")
ONLY_COMPUTE: Final = "this nvidia-smi lists only the processes that compute"
_NAME: Final = "name"

_FIELDS: Final = {
    "uuid": ("uuid", "gpu_uuid"),
    "pci": ("pci.bus_id", "gpu_bus_id"),
    "driver": ("driver_version",),
    "utilization_percent": ("utilization.gpu",),
    "memory_utilization_percent": ("utilization.memory",),
    "encoder_percent": ("utilization.encoder",),
    "decoder_percent": ("utilization.decoder",),
    "memory_total_bytes": ("memory.total",),
    "memory_used_bytes": ("memory.used",),
    "memory_free_bytes": ("memory.free",),
    "memory_reserved_bytes": ("memory.reserved",),
    "temperature_celsius": ("temperature.gpu",),
    "memory_temperature_celsius": ("temperature.memory",),
    "power_watts": ("power.draw",),
    "power_limit_watts": ("enforced.power.limit", "power.limit"),
    "fan_percent": ("fan.speed",),
    "sm_clock_mhz": ("clocks.sm", "clocks.current.sm"),
    "memory_clock_mhz": ("clocks.mem", "clocks.current.memory"),
    "throttle": ("clocks_event_reasons.active", "clocks_throttle_reasons.active"),
    "pcie_generation": ("pcie.link.gen.current",),
    "pcie_width": ("pcie.link.width.current",),
    "ecc_uncorrected": ("ecc.errors.uncorrected.volatile.total",),
    "performance_state": ("pstate",),
    "limit power_default_watts": ("power.default_limit",),
    "limit pcie_generation": ("pcie.link.gen.max",),
    "limit pcie_width": ("pcie.link.width.max",),
    "limit sm_clock_mhz": ("clocks.max.sm",),
}
_OLDEST: Final = frozenset(
    {
        "uuid", "pci.bus_id", "driver_version", "utilization.gpu", "utilization.memory",
        "memory.total", "memory.used", "memory.free", "temperature.gpu", "power.draw",
        "power.limit", "fan.speed", "pstate",
    }
)  # fmt: skip


def parse_help(text: str) -> frozenset[str]:
    """The names in `nvidia-smi --help-query-gpu`; without any, those that every version has."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    found = frozenset(name for line in lines for name in re.findall(r'"([A-Za-z0-9_.]+)"', line))
    return found if "uuid" in found or "gpu_uuid" in found else _OLDEST


def choose(known: frozenset[str]) -> dict[str, str]:
    """What to ask for, by what it is to us. The name comes last: it may hold commas."""
    chosen: dict[str, str] = {}
    for field, names in _FIELDS.items():
        name = next((name for name in names if name in known), None)
        if name is not None:
            chosen[field] = name
    return chosen | {_NAME: "name"}


def parse(text: str, fields: Iterable[str], apps: str | Unknown) -> Report:
    """The rows as boards; lines that are no row are not ours to read."""
    columns = tuple(fields)
    rows = [_cells(line, columns) for line in text.splitlines()]
    tables = [row for row in rows if row and texts.is_text(row.get("uuid") or row.get("pci"))]
    uses = {} if isinstance(apps, Unknown) else parse_apps(apps)
    reason = apps.reason if isinstance(apps, Unknown) else ONLY_COMPUTE
    driver = next((row["driver"] for row in tables if texts.is_text(row.get("driver"))), None)
    return Report(
        gpus=tuple(_gpu(row, uses.get(row.get("uuid", ""), ()), reason) for row in tables),
        versions={"driver": driver} if driver else {},
    )


def parse_apps(text: str) -> dict[str, tuple[Use, ...]]:
    """The compute processes of each board, by its uuid."""
    found: dict[str, dict[int, Use]] = {}
    for line in text.splitlines():
        row = _cells(line, APPS)
        pid = texts.number(row["pid"], texts.COUNT) if row else NOT_REPORTED
        if row and not isinstance(pid, Unknown) and pid >= 1:
            memory = texts.read("memory_bytes", row["used_memory"])
            size = None if isinstance(memory, Unknown) else int(memory)
            use = Use(int(pid), ProcessKind.COMPUTE, size)
            found.setdefault(row["gpu_uuid"], {}).setdefault(use.pid, use)
    return {uuid: tuple(uses.values()) for uuid, uses in found.items()}


def _cells(line: str, columns: tuple[str, ...]) -> dict[str, str] | None:
    cells = [cell.strip() for cell in line.split(",", len(columns) - 1)]
    return dict(zip(columns, cells, strict=True)) if len(cells) == len(columns) else None


def _gpu(row: dict[str, str], uses: tuple[Use, ...], reason: str) -> Gpu:
    uuid, name = row.get("uuid", ""), row.get(_NAME, "")
    limits: dict[str, Value] = {
        field.removeprefix("limit "): texts.read(field.removeprefix("limit "), text)
        for field, text in row.items()
        if field.startswith("limit ")
    }
    values: dict[str, Value] = {f: texts.read(f, row.get(f)) for f in texts.MEASURES if f in row}
    return Gpu(
        uuid=uuid if uuid.startswith("GPU-") else None,
        pci=texts.pci_address(row.get("pci")),
        name=name if texts.is_text(name) else "NVIDIA GPU",
        values=values | {"throttle": texts.throttle_mask(row.get("throttle"))},
        limits=limits,
        uses=uses,
        uses_reason=reason,
        lost=next((why for text in row.values() if (why := texts.lost(text))), None),
    )
