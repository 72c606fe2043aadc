"""Readings for the history, upkeep until there is nothing left to do, and every store there is."""

from pathlib import Path
from typing import cast

from andon.core.history.series import NodeReadings, tick_of
from andon.core.history.tiers import Retention
from andon.core.settings.store_url import StoreUrl, parse_store_url
from andon.engine.sampling.maintainer import Maintainer
from andon.model.device import Device, DeviceStatus, Host, Process, Sample, Snapshot, State
from andon.ports import Store, StoreKind
from andon.registry import STORES, load

AT = 1_790_000_000.0 - 1_790_000_000.0 % 864_000  # where windows of every tier begin
GPU = "GPU-1"
STORE_URLS = {"memory": "memory:", "sqlite": "sqlite:{}/state/history.db"}
"""One for every store of the registry; `{}` is a folder of the test's own."""


def kind_of(scheme: str) -> StoreKind:
    return cast("StoreKind", load(STORES, scheme))


def url_in(folder: Path, scheme: str) -> StoreUrl:
    return parse_store_url(STORE_URLS[scheme].format(folder))


def tick(at: float, percent: int, watts: float = 100.0) -> NodeReadings:
    sample = Sample(at, utilization_percent=percent, power_watts=watts)
    return tick_of(Snapshot("n", at, devices=(status(sample),), host=Host(cpu_percent=12.5)))


def status(sample: Sample) -> DeviceStatus:
    return DeviceStatus(Device(GPU, 0, "nvidia", "H200"), State.OK, 0.0, sample=sample)


def upkeep(store: Store, at: float, retention: Retention | None = None) -> None:
    Maintainer(store, retention or Retention()).finish(at)


def snapshot(at: float, *processes: Process, state: State = State.OK, **values: object) -> Snapshot:
    sample = Sample(at, **values)  # type: ignore[arg-type]
    device = Device("GPU-1", 0, "nvidia", "H200")
    return Snapshot(
        "n", at, devices=(DeviceStatus(device, state, 0.0, sample=sample, processes=processes),)
    )
