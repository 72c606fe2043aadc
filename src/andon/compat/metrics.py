"""One device's readings under the names that `collect_metrics` has always given them."""

from dataclasses import dataclass
from typing import Self

from andon.model.device import DeviceStatus, Sample


@dataclass(frozen=True, slots=True)
class GpuMetrics:
    """What a device said in this round; None where it did not say."""

    device_id: int
    name: str
    temperature_celsius: float | None = None
    utilization_percent: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None

    def memory_percent(self) -> float | None:
        return _percent(self.memory_used_bytes, self.memory_total_bytes)

    def power_percent(self) -> float | None:
        """Of the limit that is in force."""
        return _percent(self.power_watts, self.power_limit_watts)

    @classmethod
    def from_status(cls, status: DeviceStatus) -> Self:
        """An old sample is not this round's: a device that did not answer is all unknown."""
        sample = status.sample if status.answered and status.sample else Sample(at=status.since)
        return cls(
            device_id=status.device.index,
            name=status.device.name,
            temperature_celsius=sample.temperature_celsius,
            utilization_percent=sample.utilization_percent,
            memory_used_bytes=sample.memory_used_bytes,
            memory_total_bytes=status.device.memory_total_bytes,
            power_watts=sample.power_watts,
            power_limit_watts=sample.power_limit_watts,
        )


def _percent(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else 100.0 * part / whole
