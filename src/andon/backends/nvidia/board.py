"""One NVIDIA card while it is open: its facts, its readings by tier, its partitions."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from andon.backends.nvidia import nvml
from andon.backends.nvidia.nvml import Handle
from andon.backends.nvidia.probes import (
    SHARES_SECONDS,
    SHARES_WATCHED_SECONDS,
    Due,
    Probe,
    due_probes,
)
from andon.backends.nvidia.trouble import NOT_SUPPORTED, Reach, Trouble, as_error, trouble
from andon.model.device import (
    SAMPLE_VALUES,
    Device,
    Limits,
    MemoryKind,
    Process,
    ProcessKind,
    Reading,
    Sample,
)

T = TypeVar("T")

UNWATCHED = "read only while someone watches"
FIRST_LOOK = "needs two looks: shown from the next tick on"
INSTANCE = "not reported for a MIG instance"
_BLANK: dict[str, Any] = dict.fromkeys(SAMPLE_VALUES)


def survivable(error: nvml.Error) -> Trouble:
    """The words for a value that failed; what takes away the card or all of NVML is raised."""
    found = trouble(error.value)
    if found.reach in (Reach.CARD, Reach.VENDOR):
        raise as_error(error.value, found) from error
    return found


def fact(read: Callable[[Handle], T], handle: Handle) -> T | None:
    """A limit that not every device states."""
    try:
        return read(handle)
    except nvml.Error as error:
        survivable(error)
        return None


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG instance of the board."""

    device: Device
    handle: Handle
    number: int
    lists: tuple[tuple[str, nvml.ProcessList], ...]


class Activity:
    """SM and tensor activity between two looks; only while someone watches."""

    def __init__(self) -> None:
        self.values: tuple[float, float] | None = None
        self.reason = UNWATCHED
        self._supported: bool | None = None
        self._earlier: Any = None

    def look(self, handle: Handle, watched: bool) -> None:
        self.values = None
        if not watched or self._supported is False:
            self.close()
            self.reason = UNWATCHED if self._supported is not False else self.reason
            return
        try:
            self._look(handle)
        except nvml.Error as error:
            self._supported, self.reason = False, survivable(error).reason

    def close(self) -> None:
        if self._earlier is not None:
            with contextlib.suppress(nvml.Error):
                nvml.activity_free(self._earlier)
            self._earlier = None

    def _look(self, handle: Handle) -> None:
        if self._supported is None:
            self._supported = nvml.activity_supported(handle)
            if not self._supported:
                self.reason = trouble(NOT_SUPPORTED).reason
                return
        later = nvml.activity_sample(handle)
        earlier, self._earlier = self._earlier, later
        if earlier is None:
            self.reason = FIRST_LOOK
            return
        try:
            self.values = nvml.activity_between(earlier, later)
        finally:
            nvml.activity_free(earlier)


class Board:
    """Everything known of one open card. Used by one thread at a time."""

    def __init__(self, handle: Handle, index: int, root: Path) -> None:
        self._handle, self._root = handle, root
        self._values: dict[str, Any] = dict(_BLANK)
        self._read_at: dict[str, float] = {}
        self._missing: dict[str, str] = {}
        self._unsupported: set[str] = set()
        self._due = Due()
        self._activity = Activity()
        self._lists = nvml.process_lists()
        self._shares: dict[int, int] | None = None
        self._shares_stamp = 0
        self._had_processes = False
        self.device = self._describe(index)
        self._instances: list[Instance] = []

    # Facts.

    def _describe(self, index: int) -> Device:
        handle = self._handle
        total = fact(lambda h: nvml.memory(h).total, handle)
        return Device(
            uuid=nvml.uuid(handle),
            index=index,
            vendor="nvidia",
            name=nvml.name(handle),
            pci=fact(nvml.pci, handle),
            memory_kind=MemoryKind.DEVICE if total is not None else MemoryKind.UNIFIED,
            memory_total_bytes=total if total is not None else system_memory(self._root)[0],
            limits=Limits(
                slowdown_celsius=fact(nvml.slowdown_celsius, handle),
                power_default_watts=fact(nvml.power_default_watts, handle),
                pcie_generation=fact(nvml.pcie_generation_limit, handle),
                pcie_width=fact(nvml.pcie_width_limit, handle),
                sm_clock_mhz=fact(nvml.sm_clock_limit_mhz, handle),
            ),
        )

    def devices(self) -> list[Device]:
        """The board and its partitions, whose layout is asked afresh."""
        self._instances = self._find_instances()
        return [self.device, *(instance.device for instance in self._instances)]

    def _find_instances(self) -> list[Instance]:
        if not fact(nvml.mig_enabled, self._handle):
            return []
        known = {instance.device.uuid: instance for instance in self._instances}
        found = [(nvml.uuid(handle), handle) for handle in nvml.mig_handles(self._handle)]
        return [known.get(uuid) or self._instance(uuid, handle) for uuid, handle in found]

    def _instance(self, uuid: str, handle: Handle) -> Instance:
        device = Device(
            uuid=uuid,
            index=self.device.index,
            vendor="nvidia",
            name=nvml.name(handle),
            pci=self.device.pci,
            parent=self.device.uuid,
            memory_total_bytes=fact(lambda h: nvml.memory(h).total, handle),
        )
        return Instance(device, handle, nvml.mig_instance(handle), nvml.process_lists())

    # Readings.

    def read(self, at: float, now: float, watched: bool) -> list[Reading]:
        for probe in due_probes(self._due, self._unsupported, now):
            self._make(probe, at)
        self._activity.look(self._handle, watched)
        processes, trouble_with_list = self._processes(now, watched)
        missing = dict(self._missing)
        if trouble_with_list:
            missing["processes"] = trouble_with_list
        readings = [Reading(self.device.uuid, self._sample(at, missing), missing, processes)]
        return readings + [self._read_instance(instance, at) for instance in self._instances]

    def is_busy(self) -> bool:
        """Whether work or a process is on the card, as last read."""
        return bool(self._values["utilization_percent"]) or self._had_processes

    def close(self) -> None:
        self._activity.close()

    def _make(self, probe: Probe, at: float) -> None:
        try:
            values = probe.read(self._handle)
        except nvml.Error as error:
            self._failed(probe, survivable(error))
            return
        for name, value in zip(probe.fields, values, strict=True):
            self._values[name], self._read_at[name] = value, at
            if value is None:
                self._missing[name] = "this driver does not say"
            else:
                self._missing.pop(name, None)

    def _failed(self, probe: Probe, found: Trouble) -> None:
        if found.reach is Reach.FOR_GOOD:
            self._unsupported.add(probe.fields[0])
        for name in probe.fields:
            self._values[name] = None
            self._missing[name] = found.reason

    def _sample(self, at: float, missing: dict[str, str]) -> Sample:
        values = dict(self._values)
        if self.device.memory_kind is MemoryKind.UNIFIED:
            self._use_system_memory(values, missing)
        if self._activity.values is not None:
            values["sm_active_percent"], values["tensor_active_percent"] = self._activity.values
        else:
            missing["sm_active_percent"] = missing["tensor_active_percent"] = self._activity.reason
        older = {n: t for n, t in self._read_at.items() if t < at and values[n] is not None}
        return Sample(at=at, read_at=older, **values)

    def _use_system_memory(self, values: dict[str, Any], missing: dict[str, str]) -> None:
        """The chip shares the system's memory, so that is what it can run out of."""
        total, available = system_memory(self._root)
        if total is not None and available is not None:
            values["memory_used_bytes"] = total - available
            values["memory_free_bytes"] = available
            missing.pop("memory_used_bytes", None)
            missing.pop("memory_free_bytes", None)

    def _processes(self, now: float, watched: bool) -> tuple[tuple[Process, ...], str | None]:
        found, reason = list_processes(self._lists, self._handle)
        self._had_processes = bool(found)
        if found:
            self._update_shares(now, watched)
        shares = self._shares
        return (
            tuple(
                Process(
                    pid=use.pid,
                    kind=kind,
                    memory_bytes=use.memory_bytes,
                    utilization_percent=None if shares is None else shares.get(use.pid, 0),
                )
                for use, kind in found
            ),
            reason,
        )

    def _update_shares(self, now: float, watched: bool) -> None:
        if watched:
            self._due.hasten("shares", SHARES_WATCHED_SECONDS, now)
        period = SHARES_WATCHED_SECONDS if watched else SHARES_SECONDS
        if "shares" in self._unsupported or not self._due.take("shares", period, now):
            return
        try:
            self._shares, self._shares_stamp = nvml.process_utilization(
                self._handle, self._shares_stamp
            )
        except nvml.Error as error:
            self._shares = None
            if survivable(error).reach is Reach.FOR_GOOD:
                self._unsupported.add("shares")

    def _read_instance(self, instance: Instance, at: float) -> Reading:
        missing = dict.fromkeys(SAMPLE_VALUES, INSTANCE)
        values = dict(_BLANK)
        try:
            memory = nvml.memory(instance.handle)
            values["memory_used_bytes"], values["memory_free_bytes"] = memory.used, memory.free
            values["memory_reserved_bytes"] = memory.reserved
        except nvml.Error as error:
            missing["memory_used_bytes"] = missing["memory_free_bytes"] = survivable(error).reason
        found, reason = list_processes(instance.lists, instance.handle)
        missing = {name: why for name, why in missing.items() if values[name] is None}
        if reason:
            missing["processes"] = reason
        processes = tuple(
            Process(use.pid, kind, memory_bytes=use.memory_bytes) for use, kind in found
        )
        return Reading(instance.device.uuid, Sample(at=at, **values), missing, processes)


def list_processes(
    lists: tuple[tuple[str, nvml.ProcessList], ...], handle: Handle
) -> tuple[list[tuple[nvml.Use, ProcessKind]], str | None]:
    """Every process once: one that computes and draws stands in two lists with one memory."""
    found: dict[int, tuple[nvml.Use, ProcessKind]] = {}
    reason = None
    for kind, processes in lists:
        try:
            for use in processes.read(handle):
                found.setdefault(use.pid, (use, ProcessKind(kind)))
        except nvml.Error as error:
            trouble_with_list = survivable(error)
            if trouble_with_list.reach is not Reach.FOR_GOOD or kind == "compute":
                reason = trouble_with_list.reason
    return list(found.values()), reason


def system_memory(root: Path) -> tuple[int | None, int | None]:
    """Total and available bytes of the system's memory."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        table = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        return table["MemTotal"], table["MemAvailable"]
    except (OSError, ValueError, IndexError, KeyError):
        return None, None
