"""The tier table: which NVML calls fill which fields, and how often each is worth its cost.

The periods follow from measured costs: nine cheap calls and the process lists take 0.3 ms of an
H200's second together, the energy counter alone takes 3 ms and the per-process shares 2 ms.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from andon.backends.nvidia import nvml
from andon.backends.nvidia.nvml import Handle

EVERY_TICK: Final = 0.0
OFTEN: Final = 5.0
SELDOM: Final = 60.0
SHARES_SECONDS: Final = 30.0
SHARES_WATCHED_SECONDS: Final = 5.0
EARLY_SECONDS: Final = 0.1  # ticks are never exact; a tier that is due in a moment is due now


@dataclass(frozen=True, slots=True)
class Probe:
    """One call and the fields that it fills, in order."""

    fields: tuple[str, ...]
    every_seconds: float
    read: Callable[[Handle], tuple[Any, ...]]


def _memory(handle: Handle) -> tuple[int, int, int | None]:
    memory = nvml.memory(handle)
    return memory.used, memory.free, memory.reserved


def _one(name: str, every_seconds: float, read: Callable[[Handle], Any]) -> Probe:
    return Probe((name,), every_seconds, lambda handle: (read(handle),))


PROBES: Final = (
    Probe(("utilization_percent", "memory_utilization_percent"), EVERY_TICK, nvml.utilization),
    Probe(("memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes"), EVERY_TICK, _memory),
    _one("temperature_celsius", EVERY_TICK, nvml.temperature_celsius),
    _one("power_watts", EVERY_TICK, nvml.power_watts),
    _one("power_limit_watts", EVERY_TICK, nvml.power_limit_watts),
    _one("sm_clock_mhz", EVERY_TICK, nvml.sm_clock_mhz),
    _one("memory_clock_mhz", EVERY_TICK, nvml.memory_clock_mhz),
    _one("throttle", EVERY_TICK, nvml.throttle),
    _one("performance_state", EVERY_TICK, nvml.performance_state),
    _one("memory_temperature_celsius", OFTEN, nvml.memory_temperature_celsius),
    _one("fan_percent", OFTEN, nvml.fan_percent),
    _one("encoder_percent", OFTEN, nvml.encoder_percent),
    _one("decoder_percent", OFTEN, nvml.decoder_percent),
    _one("pcie_generation", OFTEN, nvml.pcie_generation),
    _one("pcie_width", OFTEN, nvml.pcie_width),
    _one("energy_joules", SELDOM, nvml.energy_joules),
    _one("ecc_uncorrected", SELDOM, nvml.ecc_uncorrected),
)


class Due:
    """When each thing is to be asked again."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def take(self, name: str, every_seconds: float, now: float) -> bool:
        """Whether it is due; if so, its next time is set."""
        if now + EARLY_SECONDS < self._next.get(name, now):
            return False
        self._next[name] = now + every_seconds
        return True

    def hasten(self, name: str, at_most_seconds: float, now: float) -> None:
        """Bring a next time forward when it matters more than it did."""
        if name in self._next:
            self._next[name] = min(self._next[name], now + at_most_seconds)


def due_probes(due: Due, unsupported: set[str], now: float) -> Iterator[Probe]:
    """The probes to make in this tick."""
    for probe in PROBES:
        name = probe.fields[0]
        if name in unsupported:
            continue
        if probe.every_seconds == EVERY_TICK or due.take(name, probe.every_seconds, now):
            yield probe
