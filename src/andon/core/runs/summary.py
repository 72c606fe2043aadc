"""What a run used, device by device: extremes, mean, p95, idle share, peak memory, energy."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from andon.core.runs.tallies import RunTally
from andon.core.sampling.idleness import ZERO_READING
from andon.model.device import DeviceStatus, Sample, Snapshot

LONGEST_STEP_SECONDS = 30.0  # a longer gap between two samples is unknown
DIGITS = 3

VALUES: dict[str, Callable[[DeviceStatus, Sample], float | None]] = {
    "utilization_percent": lambda status, sample: sample.utilization_percent,
    "memory_used_bytes": lambda status, sample: sample.memory_used_bytes,
    "memory_percent": lambda status, sample: status.memory_percent,
    "temperature_celsius": lambda status, sample: sample.temperature_celsius,
    "power_watts": lambda status, sample: sample.power_watts,
    "sm_clock_mhz": lambda status, sample: sample.sm_clock_mhz,
}


@dataclass(slots=True)
class ExactSpread:
    """Exact extremes and mean, the 95th percentile to three digits, in bounded memory."""

    tally: RunTally = field(default_factory=RunTally)
    counts: Counter[float] = field(default_factory=Counter)

    def add(self, value: float | None) -> None:
        if value is not None:
            self.tally.add(value)
            self.counts[float(f"{value:.{DIGITS}g}")] += 1

    def result(self) -> dict[str, float | None]:
        low, high, mean = self.tally.min, self.tally.max, self.tally.mean
        return {"min": low, "max": high, "mean": mean, "p95": self._percentile(0.95)}

    def _percentile(self, share: float) -> float | None:
        left = share * self.tally.count
        for value, count in sorted(self.counts.items()):
            left -= count
            if left <= 0:
                low, high = self.tally.min, self.tally.max
                return min(max(value, low or value), value if high is None else high)
        return None


@dataclass(slots=True)
class DeviceSummary:
    """One device of a run."""

    name: str
    index: int
    samples: int = 0
    idle: int = 0
    energy_joules: float = 0.0
    last: tuple[float, float] | None = None  # time and watts
    spreads: dict[str, ExactSpread] = field(
        default_factory=lambda: {n: ExactSpread() for n in VALUES}
    )

    def add(self, status: DeviceStatus, at: float) -> None:
        sample = status.sample
        if sample is None or not status.answered:
            return
        self.samples += 1
        self.idle += sample.utilization_percent == ZERO_READING
        for name, read in VALUES.items():
            self.spreads[name].add(read(status, sample))
        self._count_energy(sample.power_watts, at)

    def _count_energy(self, watts: float | None, at: float) -> None:
        if watts is None:
            self.last = None
            return
        if self.last is not None and 0 < at - self.last[0] <= LONGEST_STEP_SECONDS:
            self.energy_joules += (at - self.last[0]) * (watts + self.last[1]) / 2
        self.last = (at, watts)

    def result(self) -> dict[str, Any]:
        known = self.spreads["utilization_percent"].tally.count
        powered = self.spreads["power_watts"].tally.count > 1
        return {
            "index": self.index,
            "name": self.name,
            "samples": self.samples,
            "idle_share": round(self.idle / known, 4) if known else None,
            "peak_memory_bytes": self.spreads["memory_used_bytes"].tally.max,
            "energy_joules": round(self.energy_joules, 1) if powered else None,
            **{name: spread.result() for name, spread in self.spreads.items()},
        }


class RunTallies:
    """Takes snapshots one by one and keeps only the run's devices."""

    def __init__(self, uuids: frozenset[str]) -> None:
        self._uuids = uuids
        self.samples = 0
        self._devices: dict[str, DeviceSummary] = {}
        self.latest: dict[str, DeviceStatus] = {}

    def add(self, snapshot: Snapshot) -> list[DeviceStatus]:
        """Count a snapshot; returns the statuses that were counted."""
        mine = [s for s in snapshot.devices if s.device.uuid in self._uuids]
        self.samples += 1
        for status in mine:
            device = status.device
            fresh = DeviceSummary(device.name, device.index)
            self._devices.setdefault(device.uuid, fresh).add(status, snapshot.at)
            if status.answered:
                self.latest[device.uuid] = status
        return mine

    def result(self) -> dict[str, dict[str, Any]]:
        """By uuid."""
        return {uuid: device.result() for uuid, device in self._devices.items()}
