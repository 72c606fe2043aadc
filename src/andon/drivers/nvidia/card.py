"""One open NVIDIA card: its facts, its readings by tier, its partitions."""

import contextlib
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from andon.drivers.nvidia import nvml
from andon.drivers.nvidia.lists import Found, ListedProcess, ProcessLists
from andon.drivers.nvidia.nvml import Handle
from andon.drivers.nvidia.tiers import (
    ACTIVITY,
    EARLY_SECONDS,
    SHARES_SECONDS,
    SHARES_WATCHED_SECONDS,
    DueTimes,
    Gauges,
)
from andon.drivers.nvidia.traffic import Traffic
from andon.drivers.nvidia.trouble import NOT_SUPPORTED, ErrorScope, survivable, trouble
from andon.drivers.shared import pci
from andon.drivers.shared.sysfs import Tree
from andon.model.device import (
    SAMPLE_VALUES,
    UNWATCHED,
    Device,
    Limits,
    MemoryKind,
    Process,
    ProcessKind,
    Reading,
    Sample,
    Setup,
    pids_of,
    unknown_setup,
)

# How the driver runs a card: its modes, and how long it took to start.

ECC_SECONDS: Final = 3600.0
"""0.5 ms on an H200, for what only a reboot changes; the persistence mode takes 0.1 ms."""


class SetupReader:
    """Reads the modes of a card whenever it is described: once a minute, ECC once an hour."""

    def __init__(self, handle: Handle, start_seconds: float) -> None:
        self._handle, self._start_seconds = handle, start_seconds
        self._missing: dict[str, str] = {}
        self._ecc: tuple[bool | None, bool | None] = (None, None)
        self._ecc_due: float | None = None

    def read(self, now: float) -> Setup:
        persistence = self._value(nvml.persistence, "persistence")
        if self._ecc_due is None or now + EARLY_SECONDS >= self._ecc_due:
            self._ecc_due = now + ECC_SECONDS
            self._ecc = self._value(nvml.ecc_modes, "ecc", "ecc_pending") or (None, None)
        return Setup(persistence, *self._ecc, self._start_seconds, dict(self._missing))

    def _value(self, read: Callable[[Handle], Any], *names: str) -> Any:
        for name in names:
            self._missing.pop(name, None)
        try:
            return read(self._handle)
        except nvml.Error as error:
            self._missing |= dict.fromkeys(names, survivable(error).reason)
            return None


# SM and tensor activity (GPM): expensive, and so read only while someone is watching.

FIRST_READING = "needs two readings: available from the next one on"
NO_NUMBER = "the driver reported no number"


class Activity:
    """SM and tensor activity between two readings; only while someone is watching."""

    def __init__(self) -> None:
        self.values: tuple[float, float] | None = None
        self.reason = UNWATCHED
        self._supported: bool | None = None
        self._earlier: Any = None

    def read(self, handle: Handle, watched: bool) -> None:
        self.values = None
        if not watched or self._supported is False:
            self.close()
            self.reason = UNWATCHED if self._supported is not False else self.reason
            return
        try:
            self._read(handle)
        except nvml.Error as error:
            self._supported, self.reason = False, survivable(error).reason

    def close(self) -> None:
        if self._earlier is not None:
            with contextlib.suppress(nvml.Error):
                nvml.activity_free(self._earlier)
            self._earlier = None

    def _read(self, handle: Handle) -> None:
        if self._supported is None:
            self._supported = nvml.activity_supported(handle)
            if not self._supported:
                self.reason = trouble(NOT_SUPPORTED).reason
                return
        later = nvml.activity_sample(handle)
        earlier, self._earlier = self._earlier, later
        if earlier is None:
            self.reason = FIRST_READING
            return
        try:
            values = nvml.activity_between(earlier, later)
        finally:
            nvml.activity_free(earlier)
        if all(map(math.isfinite, values)):
            self.values = values
        else:
            self.reason = NO_NUMBER


T = TypeVar("T")

INSTANCE = "not reported for a MIG instance"
_INSTANCE_SETUP = unknown_setup(INSTANCE)
_BLANK: dict[str, Any] = dict.fromkeys(SAMPLE_VALUES)


def fact(read: Callable[[Handle], T], handle: Handle) -> T | None:
    """Returns a limit; None if the device does not report it."""
    try:
        return read(handle)
    except nvml.Error as error:
        survivable(error)
        return None


class Instance(Struct, frozen=True):
    """A MIG instance of the board."""

    device: Device
    handle: Handle
    processes: ProcessLists


class NvidiaCard:
    """One open card. Used by one thread at a time."""

    def __init__(self, handle: Handle, index: int, root: Path, start_seconds: float = 0.0) -> None:
        self.handle = self._handle = handle
        self._root = root
        self._setup = SetupReader(handle, start_seconds)
        self._gauges = Gauges()
        self._due = DueTimes()
        self._activity, self._run_activity = Activity(), Activity()
        self._known_activity = self._activity
        self._accounted = False  # the next reading is for the record of a run
        self._ring_supported = True
        self._traffic = Traffic()
        self._older_parts: tuple[Mapping[str, float], ...] = ({}, {})
        self._older: Mapping[str, float] = {}
        self._lists = ProcessLists()
        self._shares: dict[int, int] | None = None
        self._shares_supported = True
        self._shares_stamp = 0
        self._had_processes = False
        self._shown_for: tuple[Found, dict[int, int] | None] = ((), None)
        self._shown: tuple[Process, ...] = ()
        self._missing_for: object = None
        self._why_missing: Mapping[str, str] = {}
        self.device = self._describe(index)
        self._instances: list[Instance] = []

    # Facts.

    def _describe(self, index: int) -> Device:
        handle = self._handle
        total = fact(lambda h: nvml.memory(h).total, handle)
        address = fact(nvml.pci, handle)
        slot = pci.PcieSlot() if address is None else pci.slot(Tree(self._root), address)
        return Device(
            uuid=nvml.uuid(handle),
            index=index,
            vendor="nvidia",
            name=nvml.name(handle),
            pci=address,
            memory_kind=MemoryKind.DEVICE if total is not None else MemoryKind.UNIFIED,
            memory_total_bytes=total if total is not None else system_memory(self._root)[0],
            limits=Limits(
                slowdown_celsius=fact(nvml.slowdown_celsius, handle),
                power_default_watts=fact(nvml.power_default_watts, handle),
                pcie_generation=fact(nvml.pcie_generation_limit, handle),
                pcie_width=fact(nvml.pcie_width_limit, handle),
                pcie_slot_generation=slot.generation,
                pcie_slot_width=slot.width,
                sm_clock_mhz=fact(nvml.sm_clock_limit_mhz, handle),
            ),
        )

    def devices(self, now: float) -> list[Device]:
        """Returns the board and its partitions; modes and layout are read again."""
        setup = self._setup.read(now)
        if setup != self.device.setup:
            self.device = replace(self.device, setup=setup)
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
            setup=_INSTANCE_SETUP,
        )
        return Instance(device, handle, ProcessLists())

    # Readings.

    def read(self, at: float, now: float, watched: bool) -> list[Reading]:
        self._traffic.begin(self._handle, at, now, watched)
        self._gauges.refresh(self._handle, at, now)
        self._read_activity(watched)
        before = self._shown
        processes = self._processes(now, watched)
        if processes is not before and pids_of(processes) != pids_of(before):
            # A process that came or left is billed by the counter, which takes 3 ms: only then.
            self._gauges.renew("energy_joules", self._handle, at, now)
        self._traffic.finish(self._handle, now)
        reading = Reading(self.device.uuid, self._sample(at), self._missing(), processes)
        if not self._instances:
            return [reading]
        return [reading, *(self._read_instance(each, at, now) for each in self._instances)]

    def account(self, energy: bool) -> dict[str, list[tuple[float, float]]]:
        """Prepares a reading for a run's record; returns the driver's own readings since the last
        one."""
        self._accounted = True
        if energy:
            self._gauges.expire("energy_joules")
        if not self._ring_supported:
            return {}
        try:
            ring = nvml.utilization_ring(self._handle)
        except nvml.Error as error:
            if survivable(error).reach is ErrorScope.FOR_GOOD:
                self._ring_supported = False
            return {}
        return {self.device.uuid: ring}

    def _read_activity(self, watched: bool) -> None:
        """Reads activity while someone watches; for a record since its last request."""
        self._activity.read(self._handle, watched)
        self._known_activity = self._activity
        if self._accounted:
            self._accounted = False
            self._run_activity.read(self._handle, watched=True)
            self._known_activity = self._activity if watched else self._run_activity

    def is_busy(self) -> bool:
        """Whether the card was busy or had processes when last read."""
        return bool(self._gauges.values["utilization_percent"]) or self._had_processes

    def close(self) -> None:
        self._activity.close()
        self._run_activity.close()

    def _sample(self, at: float) -> Sample:
        values = self._gauges.values
        if self.device.memory_kind is MemoryKind.UNIFIED:
            # The chip shares the system's memory, so that is the limit.
            total, available = system_memory(self._root)
            if total is not None and available is not None:
                values["memory_used_bytes"] = total - available
                values["memory_free_bytes"] = available
        values.update(zip(ACTIVITY, self._known_activity.values or (None, None), strict=True))
        values.update(self._traffic.values)
        # In order: by name it takes eight times as long.
        return Sample(at, *(*values.values(), self._read_at(at)))

    def _read_at(self, at: float) -> Mapping[str, float]:
        """Returns when older values were read: the same object as last time if nothing changed."""
        parts = self._gauges.older, self._traffic.older(at)
        if any(one is not other for one, other in zip(parts, self._older_parts, strict=True)):
            self._older_parts, self._older = parts, {**parts[0], **parts[1]}
        return self._older

    def _missing(self) -> Mapping[str, str]:
        """Returns why values are None: the same object as last time if nothing changed."""
        gauges = self._gauges
        activity = self._known_activity
        silent = activity.reason if activity.values is None else None
        now = gauges.failures, silent, self._lists.reason, self._traffic.changes
        if now != self._missing_for or self.device.memory_kind is MemoryKind.UNIFIED:
            self._missing_for = now
            missing = {n: why for n, why in gauges.missing.items() if gauges.values[n] is None}
            if silent is not None:
                missing |= dict.fromkeys(ACTIVITY, silent)
            missing |= self._traffic.missing
            if self._lists.reason:
                missing["processes"] = self._lists.reason
            self._why_missing = missing
        return self._why_missing

    def _processes(self, now: float, watched: bool) -> tuple[Process, ...]:
        found = self._lists.read(self._handle, self._gauges.values["memory_used_bytes"], now)
        self._had_processes = bool(found)
        if found:
            self._update_shares(now, watched)
        if (found, self._shares) != self._shown_for:
            self._shown_for = found, self._shares
            self._shown = tuple(self._process(use, kind) for use, kind in found)
        return self._shown

    def _process(self, use: ListedProcess, kind: ProcessKind) -> Process:
        return Process(
            pid=use.pid,
            kind=kind,
            memory_bytes=use.memory_bytes,
            utilization_percent=None if self._shares is None else self._shares.get(use.pid, 0),
        )

    def _update_shares(self, now: float, watched: bool) -> None:
        if watched:
            self._due.hasten("shares", SHARES_WATCHED_SECONDS, now)
        period = SHARES_WATCHED_SECONDS if watched else SHARES_SECONDS
        if not self._shares_supported or not self._due.take("shares", period, now):
            return
        try:
            self._shares, self._shares_stamp = nvml.process_utilization(
                self._handle, self._shares_stamp
            )
        except nvml.Error as error:
            self._shares = None
            if survivable(error).reach is ErrorScope.FOR_GOOD:
                self._shares_supported = False

    def _read_instance(self, instance: Instance, at: float, now: float) -> Reading:
        missing = dict.fromkeys(SAMPLE_VALUES, INSTANCE)
        values = dict(_BLANK)
        try:
            memory = nvml.memory(instance.handle)
            values["memory_used_bytes"], values["memory_free_bytes"] = memory.used, memory.free
            values["memory_reserved_bytes"] = memory.reserved
        except nvml.Error as error:
            missing["memory_used_bytes"] = missing["memory_free_bytes"] = survivable(error).reason
        found = instance.processes.read(instance.handle, values["memory_used_bytes"], now)
        missing = {name: why for name, why in missing.items() if values[name] is None}
        if instance.processes.reason:
            missing["processes"] = instance.processes.reason
        processes = tuple(
            Process(use.pid, kind, memory_bytes=use.memory_bytes) for use, kind in found
        )
        return Reading(instance.device.uuid, Sample(at, *values.values()), missing, processes)


def system_memory(root: Path) -> tuple[int | None, int | None]:
    """Total and available bytes of the system's memory."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        table = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        return table["MemTotal"], table["MemAvailable"]
    except (OSError, ValueError, IndexError, KeyError):
        return None, None
