"""Readings for tests of a history, and upkeep until there is nothing left to do."""

from andon.history.rules.series import NodeReadings, tick_of
from andon.history.rules.tiers import Retention
from andon.history.writer import Maintainer
from andon.model.device import Device, DeviceStatus, Host, Sample, Snapshot, State
from andon.ports import Store

AT = 1_790_000_000.0 - 1_790_000_000.0 % 864_000  # where windows of every tier begin
GPU = "GPU-1"


def tick(
    at: float, percent: int, watts: float = 100.0, throttle: tuple[str, ...] | None = None
) -> NodeReadings:
    sample = Sample(at, utilization_percent=percent, power_watts=watts, throttle=throttle)
    return tick_of(Snapshot("n", at, devices=(status(sample),), host=Host(cpu_percent=12.5)))


def status(sample: Sample) -> DeviceStatus:
    return DeviceStatus(Device(GPU, 0, "nvidia", "H200"), State.OK, 0.0, sample=sample)


def upkeep(store: Store, at: float, retention: Retention | None = None) -> None:
    Maintainer(store, retention or Retention()).finish(at)
