"""Turns nvidia-smi's report into devices and readings, with a reason for each missing value."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from andon.drivers.nvidia_smi.report import Gpu, ListedInstance, MigInstance, SmiProcess, SmiReport
from andon.drivers.nvidia_smi.texts import NOT_REPORTED, Unknown, Value
from andon.drivers.shared.pci import PcieSlot
from andon.model.device import (
    SAMPLE_VALUES,
    SETUP_VALUES,
    Device,
    Limits,
    MemoryKind,
    Process,
    Reading,
    Sample,
    Setup,
    State,
    unknown_setup,
)

VENDOR: Final = "nvidia"
BY_ADDRESS: Final = "nvidia_smi@"
"""Prefix for a device whose uuid is unknown: the roster drops it once the uuid is known."""
INSTANCE: Final = Unknown("not reported for a MIG instance")
NOT_MEASURED: Final = Unknown("not measured through nvidia-smi, which starts again each time")
_INSTANCE_SETUP: Final = unknown_setup(INSTANCE.reason)
TOO_MUCH: Final = Unknown("nvidia-smi reports more used than total memory")
LOST_HINT: Final = "find the cause: sudo dmesg | grep -i -e xid -e nvrm"
_MEMORY: Final = ("memory_used_bytes", "memory_free_bytes")


class SmiCard(Struct, frozen=True):
    """A board of the report with what else is known of it."""

    gpu: Gpu
    device: Device
    parts: tuple[tuple[MigInstance, Device], ...] = ()


class SystemMemory(Struct, frozen=True):
    """The system's memory, for devices without memory of their own."""

    total_bytes: int | None = None
    available_bytes: int | None = None


def parse_meminfo(text: str) -> SystemMemory:
    """Parses the two relevant lines of /proc/meminfo."""
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        name, _, size = line.partition(":")
        number = size.split()[:1]
        if number and number[0].isdecimal():
            sizes[name] = int(number[0]) * 1024
    return SystemMemory(sizes.get("MemTotal"), sizes.get("MemAvailable"))


def recognise(
    report: SmiReport,
    known: Iterable[Device],
    listed: Mapping[tuple[str, int], ListedInstance],
    memory: SystemMemory,
    slots: Mapping[str, PcieSlot],
) -> list[SmiCard]:
    """Returns the boards of a report, each once, with the identity it had before."""
    earlier = {device.pci: device for device in known if device.pci and device.parent is None}
    named = {gpu.pci for gpu in report.gpus if gpu.uuid}
    listed_gpus = [gpu for gpu in report.gpus if gpu.uuid or gpu.pci not in named]
    gpus = [*listed_gpus, *_nameless(report, earlier.values())]
    numbers = _numbers(gpus, earlier)
    boards: dict[str, SmiCard] = {}
    for gpu in gpus:
        before = earlier.get(gpu.pci or "")
        uuid = _identity(gpu, before)
        if uuid is not None and uuid not in boards:
            slot = slots.get(gpu.pci or "", PcieSlot())
            device = _device(gpu, uuid, numbers[id(gpu)], memory, slot)
            if gpu.lost and before is not None and before.uuid == uuid:
                device = replace(before, index=device.index)
            boards[uuid] = SmiCard(gpu, device, _parts(gpu, device, listed))
    return list(boards.values())


def readings(boards: Iterable[SmiCard], memory: SystemMemory, at: float) -> list[Reading]:
    return [reading for board in boards for reading in _read(board, memory, at)]


def missing_readings(gone: Iterable[Device]) -> list[Reading]:
    """Returns readings for known devices that are not in the report."""
    return [
        Reading(
            device.uuid,
            state=State.LOST,
            reason="nvidia-smi no longer lists this device",
            hint=LOST_HINT if device.parent is None else "its MIG layout was changed",
        )
        for device in gone
    ]


def _nameless(report: SmiReport, earlier: Iterable[Device]) -> list[Gpu]:
    """Returns unreachable boards, as lost; one without an address or a known index is left out."""
    by_index = {device.index: device.pci for device in earlier}
    listed = {gpu.pci for gpu in report.gpus}
    found: dict[str, Gpu] = {}
    for one in report.unreachable:
        pci = one.pci or (None if one.index is None else by_index.get(one.index))
        if pci and pci not in listed:
            found.setdefault(pci, Gpu(None, pci, "NVIDIA GPU", {}, lost=one.reason))
    return list(found.values())


def _numbers(gpus: list[Gpu], earlier: Mapping[str, Device]) -> dict[int, int]:
    """Returns the index of each board: the driver counts by address, including unreachable ones."""
    gone = set(earlier) - {gpu.pci for gpu in gpus}
    if not gone and not any(gpu.lost for gpu in gpus):
        return {id(gpu): index for index, gpu in enumerate(gpus)}
    order = sorted(gone | {gpu.pci or "" for gpu in gpus})
    return {id(gpu): order.index(gpu.pci or "") for gpu in gpus}


def _identity(gpu: Gpu, earlier: Device | None) -> str | None:
    if gpu.uuid:
        return gpu.uuid
    if earlier is not None:
        return earlier.uuid
    return f"{BY_ADDRESS}{gpu.pci}" if gpu.pci else None


def _device(gpu: Gpu, uuid: str, index: int, memory: SystemMemory, slot: PcieSlot) -> Device:
    unified = _is_unified(gpu)
    total = memory.total_bytes if unified else _known(gpu.value("memory_total_bytes"))
    limits: dict[str, Any] = {name: _known(value) for name, value in gpu.limits.items()}
    return Device(
        uuid=uuid,
        index=index,
        vendor=VENDOR,
        name=gpu.name,
        pci=gpu.pci,
        memory_kind=MemoryKind.UNIFIED if unified else MemoryKind.DEVICE,
        memory_total_bytes=total,
        limits=Limits(**limits, pcie_slot_generation=slot.generation, pcie_slot_width=slot.width),
        setup=_setup(gpu),
    )


def _setup(gpu: Gpu) -> Setup:
    """Returns the setup; the driver's start time is unknown: each call of the command starts it."""
    setup = {name: gpu.setup.get(name, NOT_REPORTED) for name in SETUP_VALUES}
    setup["start_seconds"] = NOT_MEASURED
    sure: dict[str, Any] = {n: v for n, v in setup.items() if not isinstance(v, Unknown)}
    return Setup(**sure, missing={n: v.reason for n, v in setup.items() if isinstance(v, Unknown)})


def _parts(
    gpu: Gpu, board: Device, listed: Mapping[tuple[str, int], ListedInstance]
) -> tuple[tuple[MigInstance, Device], ...]:
    found: dict[str, tuple[MigInstance, Device]] = {}
    for part in () if gpu.lost else gpu.parts:
        named = listed.get((board.uuid, part.number))
        # Without a uuid it is named as in older drivers: board and place.
        uuid = (
            part.uuid
            or (named and named.uuid)
            or f"MIG-{board.uuid}/{part.place[0]}/{part.place[1]}"
        )
        device = Device(
            uuid=uuid,
            index=board.index,
            vendor=VENDOR,
            name=f"{board.name} MIG {named.profile if named else part.number}",
            pci=board.pci,
            parent=board.uuid,
            memory_total_bytes=_known(part.values.get("memory_total_bytes", NOT_REPORTED)),
            setup=_INSTANCE_SETUP,
        )
        found.setdefault(uuid, (part, device))
    return tuple(found.values())


def _read(board: SmiCard, memory: SystemMemory, at: float) -> list[Reading]:
    gpu = board.gpu
    if gpu.lost:
        return [Reading(board.device.uuid, state=State.LOST, reason=gpu.lost, hint=LOST_HINT)]
    values = dict(gpu.values)
    if board.device.memory_kind is MemoryKind.UNIFIED:
        values |= _system_use(memory)
    reasons = {"processes": gpu.uses_reason} if gpu.uses_reason else {}
    whole = _reading(board.device, values, gpu.uses, at, NOT_REPORTED, reasons)
    placed: dict[object, list[SmiProcess]] = {part.place: [] for part, _ in board.parts}
    for use in gpu.uses:
        placed.get(use.place, []).append(use)
    parts = (
        _reading(device, part.values, tuple(placed[part.place]), at, INSTANCE, reasons)
        for part, device in board.parts
    )
    return [whole, *parts]


def _reading(
    device: Device,
    values: Mapping[str, Value],
    uses: tuple[SmiProcess, ...],
    at: float,
    otherwise: Unknown,
    reasons: Mapping[str, str],
) -> Reading:
    found: dict[str, Value] = {name: values.get(name, otherwise) for name in SAMPLE_VALUES}
    found |= _too_much(found, device.memory_total_bytes)
    sure: dict[str, Any] = {n: v for n, v in found.items() if not isinstance(v, Unknown)}
    missing = {n: v.reason for n, v in found.items() if isinstance(v, Unknown)}
    processes = {
        use.pid: Process(use.pid, use.kind, memory_bytes=use.memory_bytes) for use in reversed(uses)
    }
    return Reading(
        device.uuid,
        Sample(at=at, **sure),
        {**missing, **reasons},
        tuple(reversed(processes.values())),
    )


def _too_much(values: Mapping[str, Value], total: int | None) -> dict[str, Value]:
    """Returns memory sizes above the device's total as unknown: they are wrong."""
    sizes = {name: _known(values[name]) for name in _MEMORY}
    if total is None:
        return {}
    return {name: TOO_MUCH for name, size in sizes.items() if size is not None and size > total}


def _is_unified(gpu: Gpu) -> bool:
    """Whether a chip reports no memory of its own, such as GB10."""
    sizes = [gpu.value(name) for name in ("memory_total_bytes", *_MEMORY)]
    return not gpu.lost and all(isinstance(value, Unknown) and value.absent for value in sizes)


def _system_use(memory: SystemMemory) -> dict[str, Value]:
    total, available = memory.total_bytes, memory.available_bytes
    if total is None or available is None or available > total:
        return {}
    return {"memory_used_bytes": total - available, "memory_free_bytes": available}


def _known(value: Value) -> Any:
    return None if isinstance(value, Unknown) else value
