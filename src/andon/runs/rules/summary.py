"""What a run used, device by device, from the sample lines of its record.

The writer of a record and the reader of an unfinished one both use it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from andon.model.device import State
from andon.model.run.energy import LONGEST_STEP_SECONDS, EnergyMeter
from andon.model.run.record import SERIES, RunDevice, RunSample, RunSeries
from andon.model.run.use import SPREADS, DeviceUse, RunSpread
from andon.model.throttling import ThrottleKind, reason_of
from andon.runs.rules.course import DRIVER, SAMPLES, IdleTime, MemoryLevels, RunCurves, TimedSpread

SLOWED = frozenset({ThrottleKind.POWER, ThrottleKind.THERMAL, ThrottleKind.HARDWARE})
"""Kinds of throttle that keep a device from what it could do; settings and idleness do not."""
Readings = Mapping[str, Any]


class _Throttling(Struct):
    """The seconds for which each throttling reason held."""

    known: float = 0.0
    slowed: float = 0.0
    by_cause: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, reasons: Sequence[str] | None, seconds: float) -> None:
        if reasons is None:
            return
        self.known += seconds
        kinds = {reason: reason_of(reason).kind for reason in reasons}
        for reason, kind in kinds.items():
            if kind is not ThrottleKind.IDLE:
                self.by_cause[reason] += seconds
        self.slowed += seconds * (not SLOWED.isdisjoint(kinds.values()))

    def share(self) -> float | None:
        return round(self.slowed / self.known, 4) if self.known else None

    def shares(self) -> dict[str, float]:
        return {reason: round(seconds / self.known, 4) for reason, seconds in self.by_cause.items()}


class DeviceTallies:
    """One device of a run."""

    def __init__(self, device: RunDevice, began: float) -> None:
        self.device, self.began = device, began
        self.samples = 0
        self.energy = EnergyMeter(began)
        self._last = began
        self._away = 0.0  # seconds in which the run did not have it
        self._spreads = {name: TimedSpread() for name in SPREADS}
        self._idle, self._ring = IdleTime(SAMPLES), IdleTime(DRIVER)
        self._throttling = _Throttling()
        self._memory = MemoryLevels(device.memory_total_bytes, began)

    def add(self, at: float, readings: Readings) -> None:
        """Adds a sample; a device that did not answer has no readings."""
        seconds = min(max(at - self._last, 0.0), LONGEST_STEP_SECONDS)
        self._last = at
        if readings.get("state") != State.OK:
            self._idle.add(at, None, self.began)
            return
        self.samples += 1
        used = readings.get("memory_used_bytes")
        for name, spread in self._spreads.items():
            spread.add(readings.get(name), seconds)
        self._spreads["memory_percent"].add(self._percent(used), seconds)
        self._idle.add(at, readings.get("utilization_percent"), self.began)
        self._throttling.add(readings.get("throttle"), seconds)
        self._memory.add(at, used, seconds)
        self.energy.add(at, readings.get("power_watts"), readings.get("energy_joules"))

    def resume(self, at: float, left: float) -> None:
        """Continues after a gap in which the run did not have the device."""
        self._last = at
        self._away += max(0.0, at - left)
        self.energy.pause()

    def add_ring(self, points: Iterable[tuple[float, float]]) -> None:
        """Adds the driver's own readings of utilisation, which are denser than the samples."""
        for at, percent in points:
            self._ring.add(at, percent, self.began)

    def _percent(self, used: float | None) -> float | None:
        total = self.device.memory_total_bytes
        return None if used is None or not total else 100 * used / total

    def result(self, ended: float, lasted_seconds: float) -> dict[str, Any]:
        """Returns a `DeviceUse`, with its spreads."""
        spreads: dict[str, RunSpread] = {n: one.result() for n, one in self._spreads.items()}
        idle = self._ring if self._ring.known_seconds else self._idle
        joules, source = self.energy.until(ended) or (None, None)
        peak = spreads["memory_used_bytes"]["max"]
        found = DeviceUse(
            index=self.device.index,
            name=self.device.name,
            label=self.device.label,
            samples=self.samples,
            held_seconds=round(max(0.0, ended - self.began - self._away), 3),
            idle_share=None if idle.share is None else round(idle.share, 4),
            idle_spells=idle.spells(lasted_seconds),
            throttle_share=self._throttling.share(),
            throttle_by_cause=self._throttling.shares(),
            peak_memory_bytes=None if peak is None else int(peak),
            memory_plateau=self._memory.result(),
            energy_joules=None if joules is None else round(joules, 3),
            energy_source=source,
        )
        return {**found, **spreads}


class RunTallies:
    """Takes the samples of a run one by one; its size does not depend on the run's duration."""

    def __init__(self, devices: Iterable[RunDevice], began: float) -> None:
        self.began, self.ended = began, began
        self.devices = {device.uuid: DeviceTallies(device, began) for device in devices}
        self.samples = 0
        self.latest: dict[str, Readings] = {}  # of each device, when it last answered
        self._cpu = TimedSpread()
        self._curves = RunCurves(began)
        self._left: dict[str, float] = {}  # uuid -> when the run gave it back

    def join(self, device: RunDevice, at: float) -> None:
        """Adds a device that the run has from now on."""
        if (left := self._left.pop(device.uuid, None)) is not None:
            self.devices[device.uuid].resume(at, left)
        self.devices.setdefault(device.uuid, DeviceTallies(device, at))

    def leave(self, uuid: str, at: float) -> None:
        """Removes a device that the run has given back: what others do there does not count."""
        self._left[uuid] = at

    def expect(self, until: float) -> None:
        """Widens the curves' spans at once for a run whose end is known."""
        self._curves.widen(until)

    @property
    def present(self) -> frozenset[str]:
        """The devices that the run has now."""
        return frozenset(self.devices.keys() - self._left.keys())

    def add(self, sample: RunSample) -> None:
        """Adds a line of the record; devices that are not the run's are ignored."""
        self.samples += 1
        self._cpu.add(sample.cpu_percent, max(0.0, sample.at - self.ended))
        self.ended = max(self.ended, sample.at)
        self._curves.at(sample.at)
        for uuid, readings in sample.devices.items():
            if uuid in self.devices:
                self._add(uuid, sample.at, readings)

    def _add(self, uuid: str, at: float, readings: Readings) -> None:
        self.devices[uuid].add(at, readings)
        if readings.get("state") == State.OK:
            self.latest[uuid] = readings
            for name in SERIES:
                self._curves.add(uuid, name, readings.get(name))

    def summary(
        self, ended: float | None = None, lasted_seconds: float | None = None
    ) -> dict[str, dict[str, Any]]:
        """Returns the summary by uuid, up to the end of the run; without one, up to the last
        sample. A last sample is read after the end, so a run that lasted less counts up to its
        own."""
        last = self.ended if ended is None else ended
        lasted = max(0.0, last - self.began) if lasted_seconds is None else lasted_seconds
        last = min(last, self.began + lasted)
        return {
            uuid: device.result(min(last, self._left.get(uuid, last)), lasted)
            for uuid, device in self.devices.items()
        }

    def node(self) -> dict[str, RunSpread]:
        return {} if self._cpu.mean is None else {"cpu_percent": self._cpu.result()}

    def series(self) -> RunSeries | None:
        return self._curves.result()

    def memory_curve(self, uuid: str) -> list[float]:
        """Returns the memory of a device over time, where it is known."""
        found = self.series()
        points = () if found is None else found.devices.get(uuid, {}).get("memory_used_bytes", ())
        return [point for point in points if point is not None]
