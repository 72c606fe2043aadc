"""The tier table: which NVML calls fill which fields, and how often each is made.

The periods follow from measured costs: nine cheap calls and the process lists take 0.3 ms of an
H200's second together, the energy counter alone takes 3 ms and the per-process shares 2 ms.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from andon.drivers.nvidia import nvml
from andon.drivers.nvidia.nvml import Handle
from andon.drivers.nvidia.trouble import DriverTrouble, ErrorScope, survivable
from andon.model.device import SAMPLE_VALUES

EVERY_TICK: Final = 0.0
OFTEN: Final = 5.0
SELDOM: Final = 60.0
SHARES_SECONDS: Final = 30.0
SHARES_WATCHED_SECONDS: Final = 5.0
EARLY_SECONDS: Final = 0.1  # intervals are never exact; a tier that is almost due is due now


class Probe(Struct, frozen=True):
    """One call and the fields it fills: one with its result, or several in order."""

    fields: tuple[str, ...]
    every_seconds: float
    read: Callable[[Handle], Any]


def _memory(handle: Handle) -> tuple[int, int, int | None]:
    memory = nvml.memory(handle)
    return memory.used, memory.free, memory.reserved


def _one(name: str, every_seconds: float, read: Callable[[Handle], Any]) -> Probe:
    return Probe((name,), every_seconds, read)


PROBES: Final = (
    Probe(("utilization_percent", "memory_utilization_percent"), EVERY_TICK, nvml.utilization),
    Probe(("memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes"), EVERY_TICK, _memory),
    _one("temperature_celsius", EVERY_TICK, nvml.temperature_celsius),
    _one("power_watts", EVERY_TICK, nvml.power_watts),
    _one("power_limit_watts", OFTEN, nvml.power_limit_watts),
    _one("sm_clock_mhz", EVERY_TICK, nvml.sm_clock_mhz),
    _one("memory_clock_mhz", EVERY_TICK, nvml.memory_clock_mhz),
    _one("throttle", EVERY_TICK, nvml.throttle),
    _one("performance_state", OFTEN, nvml.performance_state),
    _one("memory_temperature_celsius", OFTEN, nvml.memory_temperature_celsius),
    _one("fan_percent", OFTEN, nvml.fan_percent),
    _one("encoder_percent", OFTEN, nvml.encoder_percent),
    _one("decoder_percent", OFTEN, nvml.decoder_percent),
    _one("pcie_generation", OFTEN, nvml.pcie_generation),
    _one("pcie_width", SELDOM, nvml.pcie_width),
    _one("energy_joules", SELDOM, nvml.energy_joules),
    _one("ecc_uncorrected", SELDOM, nvml.ecc_uncorrected),
)


ACTIVITY: Final = ("sm_active_percent", "tensor_active_percent")
"""Read by `activity`, and only while someone watches."""
TRAFFIC: Final = tuple(nvml.TRAFFIC_FIELDS)
"""Read by `traffic`."""
_NOT_READ: Final = frozenset(SAMPLE_VALUES).difference(
    ACTIVITY, TRAFFIC, *(p.fields for p in PROBES)
)


class DueTimes:
    """Times at which calls are due again."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def take(self, name: str, every_seconds: float, now: float) -> bool:
        """Whether a call is due; if so, schedules the next time."""
        if now + EARLY_SECONDS < self._next.get(name, now):
            return False
        self._next[name] = now + every_seconds
        return True

    def hasten(self, name: str, at_most_seconds: float, now: float) -> None:
        """Brings the next time forward."""
        if name in self._next:
            self._next[name] = min(self._next[name], now + at_most_seconds)


class Gauges:
    """The values of one device, each as recent as its tier, and why others are missing."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = dict.fromkeys(SAMPLE_VALUES)
        self.missing: dict[str, str] = dict.fromkeys(_NOT_READ, "not read through NVML")
        self.failures = 0
        """Increases whenever `missing` changes."""
        self.older: Mapping[str, float] = {}
        """When each value that is older than this sample was read."""
        self._read_at: dict[str, float] = {}
        self._fast = tuple(p for p in PROBES if p.every_seconds == EVERY_TICK)
        self._slow = {p: -math.inf for p in PROBES if p.every_seconds > EVERY_TICK}
        self._slow_due = -math.inf
        self._aging = False

    def expire(self, name: str) -> None:
        """Makes the next refresh read this value again."""
        for probe in self._slow:
            if name in probe.fields:
                self._slow[probe] = self._slow_due = -math.inf

    def refresh(self, handle: Handle, at: float, now: float) -> None:
        """Makes the calls that are due."""
        for probe in self._fast:
            self._make(probe, handle)
        if now + EARLY_SECONDS >= self._slow_due:
            self._refresh_slow(handle, at, now)
        elif self._aging:
            self._aging = False
            self._age(at)

    def renew(self, name: str, handle: Handle, at: float, now: float) -> None:
        """Reads a value of a slower tier now, unless it was just read."""
        if name in self.older:
            self.expire(name)
            self._refresh_slow(handle, at, now)

    def _refresh_slow(self, handle: Handle, at: float, now: float) -> None:
        for probe, due in list(self._slow.items()):
            if now + EARLY_SECONDS >= due:
                self._slow[probe] = now + probe.every_seconds
                self._make(probe, handle)
                self._read_at.update(dict.fromkeys(probe.fields, at))
        self._slow_due = min(self._slow.values(), default=math.inf)
        self._aging = True
        self._age(at)

    def _age(self, at: float) -> None:
        times = self._read_at.items()
        self.older = {n: t for n, t in times if t < at and self.values[n] is not None}

    def _make(self, probe: Probe, handle: Handle) -> None:
        try:
            found = probe.read(handle)
        except nvml.Error as error:
            self._failed(probe, survivable(error))
            return
        fields = probe.fields
        for name, value in zip(fields, found if len(fields) > 1 else (found,), strict=True):
            self.values[name] = value
            if value is None:
                self._is_missing(name, "not reported by this driver")
            elif name in self.missing:
                del self.missing[name]
                self.failures += 1

    def _is_missing(self, name: str, why: str) -> None:
        self.values[name] = None
        if self.missing.get(name) != why:
            self.missing[name] = why
            self.failures += 1

    def _failed(self, probe: Probe, found: DriverTrouble) -> None:
        for name in probe.fields:
            self._is_missing(name, found.reason)
        if found.reach is ErrorScope.FOR_GOOD:  # not called again
            self._fast = tuple(p for p in self._fast if p is not probe)
            self._slow.pop(probe, None)
