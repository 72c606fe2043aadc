"""One device's readings, under the names `collect_metrics` has always used."""

from typing import Self

from msgspec import Struct

from andon.model.device import DeviceStatus, Sample


class GpuMetrics(Struct, frozen=True):
    """A device's readings in this sample; None if it did not report one."""

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
        """Power as a share of the power limit in force."""
        return _percent(self.power_watts, self.power_limit_watts)

    @classmethod
    def from_status(cls, status: DeviceStatus) -> Self:
        """The readings of a device; none if it did not answer: an old sample is not used."""
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
