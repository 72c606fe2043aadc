"""The kept AndonSystem: compares metrics with plain thresholds, without durations.

Alerting with durations, reminders and notifications is `alerts/rules`; this is for programs that
check now and then.
"""

import time
from collections.abc import Callable, Iterable
from typing import ClassVar, Protocol, Self

from msgspec import Struct

from andon.explain.conditions.catalogue import DEFAULTS
from andon.model.alert import Level
from andon.model.utilisation import ZERO_READING
from andon.units import human_seconds


class Metrics(Protocol):
    """What is checked: `GPUMonitor.collect_metrics()` and `MockGpuBackend` return it."""

    @property
    def device_id(self) -> int: ...
    @property
    def temperature_celsius(self) -> float | None: ...
    @property
    def utilization_percent(self) -> float | None: ...
    def memory_percent(self) -> float | None: ...
    def power_percent(self) -> float | None: ...


class AlertConfig(Struct, frozen=True):
    """The thresholds; a value at or above one raises its alert."""

    thermal_threshold: float = DEFAULTS.thermal_celsius
    memory_threshold: float = DEFAULTS.memory_percent
    power_threshold: float = DEFAULTS.power_percent
    idle_timeout_secs: float = DEFAULTS.idle_seconds


class ThermalThrottling(Struct, frozen=True):
    """Too hot. Severity 60 at the threshold and 4 more for each degree above it."""

    device: int
    temp: float
    threshold: float

    @property
    def level(self) -> Level:
        return Level.CRITICAL if self.temp >= DEFAULTS.thermal_critical_celsius else Level.WARNING

    def severity(self) -> int:
        return _between(60, 60 + 4 * (self.temp - self.threshold), 100)

    def message(self) -> str:
        return (
            f"GPU {self.device} is too hot: {self.temp:.0f} °C (threshold "
            f"{self.threshold:.0f} °C). Check the cooling, or lower its power limit."
        )


class MemoryPressure(Struct, frozen=True):
    """Nearly full. Severity 30 at the threshold, 50 when there is nothing left."""

    level: ClassVar[Level] = Level.INFO
    device: int
    used_percent: float
    threshold: float

    def severity(self) -> int:
        return _between(30, 30 + 20 * _part(self.used_percent, self.threshold), 50)

    def message(self) -> str:
        return (
            f"The memory of GPU {self.device} is {self.used_percent:.0f} % full (threshold "
            f"{self.threshold:.0f} %). The next allocation may fail."
        )


class PowerLimit(Struct, frozen=True):
    """At its power limit. Severity 20 at the threshold, 30 at the limit."""

    level: ClassVar[Level] = Level.INFO
    device: int
    power_percent: float
    threshold: float

    def severity(self) -> int:
        return _between(20, 20 + 10 * _part(self.power_percent, self.threshold), 30)

    def message(self) -> str:
        return (
            f"GPU {self.device} draws {self.power_percent:.0f} % of its power limit (threshold "
            f"{self.threshold:.0f} %). This is normal at full load."
        )


class GpuIdle(Struct, frozen=True):
    """Nothing has run on it for this long. Severity 10: every other alert comes first."""

    level: ClassVar[Level] = Level.INFO
    device: int
    duration_secs: float

    def severity(self) -> int:
        return 10

    def message(self) -> str:
        return (
            f"GPU {self.device} has been idle for {human_seconds(self.duration_secs)}. "
            "If no one needs it, release it."
        )


GpuAlert = ThermalThrottling | MemoryPressure | PowerLimit | GpuIdle


class AndonSystem:
    """`AndonSystem().check(get_gpu_monitor().collect_metrics())`: the alerts, worst first."""

    def __init__(
        self, config: AlertConfig | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.config = config or AlertConfig()
        self._clock = clock
        self._checked: float | None = None
        self._idle: dict[int, tuple[float, float]] = {}  # idle seconds, and when last checked

    @classmethod
    def with_config(cls, config: AlertConfig) -> Self:
        return cls(config)

    def check(self, metrics: Iterable[Metrics]) -> list[GpuAlert]:
        """Returns the alerts now. Idle time is the time between this system's own checks; an
        unknown value raises nothing, and time in which it was unknown is not idle."""
        before, self._checked = self._checked, self._clock()
        found: list[GpuAlert] = []
        for one in metrics:
            found += self._judge(one, before, self._checked)
        return sorted(found, key=lambda alert: (-alert.severity(), alert.device))

    def _judge(self, one: Metrics, before: float | None, now: float) -> list[GpuAlert]:
        config, device, found = self.config, one.device_id, list[GpuAlert]()
        temp, used, power = one.temperature_celsius, one.memory_percent(), one.power_percent()
        if temp is not None and temp >= config.thermal_threshold:
            found.append(ThermalThrottling(device, temp, config.thermal_threshold))
        if used is not None and used >= config.memory_threshold:
            found.append(MemoryPressure(device, used, config.memory_threshold))
        if power is not None and power >= config.power_threshold:
            found.append(PowerLimit(device, power, config.power_threshold))
        idle = self._idle_seconds(device, one.utilization_percent, before, now)
        if idle is not None and idle >= config.idle_timeout_secs:
            found.append(GpuIdle(device, idle))
        return found

    def _idle_seconds(
        self, device: int, busy: float | None, before: float | None, now: float
    ) -> float | None:
        """The idle time, counting only time between two checks that both found the device idle."""
        if busy is None:
            return None
        if busy > ZERO_READING:
            self._idle.pop(device, None)
            return None
        seconds, seen = self._idle.get(device, (0.0, None))
        if seen is not None and seen == before:
            seconds += now - seen
        self._idle[device] = (seconds, now)
        return seconds


def _part(value: float, threshold: float) -> float:
    return (value - threshold) / (100 - threshold) if threshold < 100 else 1.0


def _between(low: int, value: float, high: int) -> int:
    return round(min(high, max(low, value)))
