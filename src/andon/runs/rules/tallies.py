"""What a run used: tallies whose size depends on the devices, not on the duration."""

import math
from typing import TypedDict

from msgspec import Struct, field

from andon.model import wire
from andon.model.device import DeviceStatus, Sample, Snapshot
from andon.model.naming import device_labels
from andon.sampling.rules.unread import faults_of
from andon.units import MIB


class Spread(TypedDict):
    """The extremes and the mean of a reading; None where it was never known."""

    min: float | None
    max: float | None
    mean: float | None


class CountedSpread(Spread):
    """A spread and the number of readings."""

    samples: int


class GpuStats(TypedDict):
    """What one device did during a run; `_mb` are MiB."""

    name: str
    utilization: CountedSpread
    memory_used_mb: Spread
    memory_usage_percent: Spread
    temperature_c: Spread
    power_draw_w: Spread


class RunSummary(TypedDict):
    """What a run used; `gpu_stats` is by the device's index, as text, or a partition's label."""

    monitoring_duration_seconds: float
    sample_count: int
    gpu_stats: dict[str, GpuStats]
    faults: list[wire.Json]


class RunTally(Struct):
    """The extremes and the mean of the values so far, without unknown ones."""

    count: int = 0
    total: float = 0.0
    min: float | None = None
    max: float | None = None

    def add(self, value: float | None) -> None:
        if value is None or not math.isfinite(value):
            return
        self.count += 1
        self.total += value
        self.min = value if self.min is None or value < self.min else self.min
        self.max = value if self.max is None or value > self.max else self.max

    @property
    def mean(self) -> float | None:
        if self.min is None or self.max is None:
            return None
        # Rounding must not carry the mean of equal values past them.
        return min(max(self.total / self.count, self.min), self.max)

    def spread(self) -> Spread:
        return {"min": self.min, "max": self.max, "mean": self.mean}


class _DeviceTallies(Struct):
    """The tallies of one device."""

    index: int
    label: str
    name: str
    utilization: RunTally = field(default_factory=RunTally)
    memory_used_mb: RunTally = field(default_factory=RunTally)
    memory_usage_percent: RunTally = field(default_factory=RunTally)
    temperature_c: RunTally = field(default_factory=RunTally)
    power_draw_w: RunTally = field(default_factory=RunTally)

    def add(self, status: DeviceStatus, sample: Sample) -> None:
        used = sample.memory_used_bytes
        self.utilization.add(sample.utilization_percent)
        self.memory_used_mb.add(None if used is None else used / MIB)
        self.memory_usage_percent.add(status.memory_percent)
        self.temperature_c.add(sample.temperature_celsius)
        self.power_draw_w.add(sample.power_watts)

    def result(self) -> GpuStats:
        return {
            "name": self.name,
            "utilization": {**self.utilization.spread(), "samples": self.utilization.count},
            "memory_used_mb": self.memory_used_mb.spread(),
            "memory_usage_percent": self.memory_usage_percent.spread(),
            "temperature_c": self.temperature_c.spread(),
            "power_draw_w": self.power_draw_w.spread(),
        }


class Summary:
    """Takes snapshots one by one and keeps only their tallies."""

    def __init__(self) -> None:
        self.sample_count = 0
        self._devices: dict[str, _DeviceTallies] = {}
        self._faults: dict[str, wire.Json] = {}

    def add(self, snapshot: Snapshot) -> None:
        """Counts a snapshot; a device that did not answer adds a fault, and nothing to tallies."""
        self.sample_count += 1
        self._faults |= {fault["source"]: fault for fault in faults_of(snapshot)}
        labels = device_labels(snapshot.devices)
        for status in snapshot.devices:
            if status.sample is None or not status.answered:
                continue
            device = status.device
            fresh = _DeviceTallies(device.index, labels[device.uuid], device.name)
            self._devices.setdefault(device.uuid, fresh).add(status, status.sample)

    def result(self, duration_seconds: float) -> RunSummary:
        """Returns what was measured so far; more may be added afterwards."""
        tallies = sorted(self._devices.values(), key=lambda one: (one.index, len(one.label)))
        return {
            "monitoring_duration_seconds": duration_seconds,
            "sample_count": self.sample_count,
            "gpu_stats": {device.label: device.result() for device in tallies},
            "faults": list(self._faults.values()),
        }
