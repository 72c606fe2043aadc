"""Snapshots for the history beside the readings that andon ships, and every store there is."""

from pathlib import Path
from typing import cast

from andon.model.device import Device, DeviceStatus, Process, Sample, Snapshot, State
from andon.ports import StoreKind
from andon.registry import STORES, load
from andon.settings.store_url import StoreUrl, parse_store_url
from andon.testing.store_contract import AT as AT
from andon.testing.store_contract import GPU as GPU
from andon.testing.store_contract import status as status
from andon.testing.store_contract import tick as tick
from andon.testing.store_contract import upkeep as upkeep

STORE_URLS = {"memory": "memory:", "sqlite": "sqlite:{}/state/history.db"}
"""One for every store of the registry; `{}` is a folder of the test's own."""


def kind_of(scheme: str) -> StoreKind:
    return cast("StoreKind", load(STORES, scheme))


def url_in(folder: Path, scheme: str) -> StoreUrl:
    return parse_store_url(STORE_URLS[scheme].format(folder))


def snapshot(at: float, *processes: Process, state: State = State.OK, **values: object) -> Snapshot:
    sample = Sample(at, **values)  # type: ignore[arg-type]
    device = Device("GPU-1", 0, "nvidia", "H200")
    return Snapshot(
        "n", at, devices=(DeviceStatus(device, state, 0.0, sample=sample, processes=processes),)
    )
