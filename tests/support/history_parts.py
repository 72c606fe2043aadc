"""Snapshots for the history beside the readings that andon ships, and every store there is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from andon.model.device import Device, DeviceStatus, Process, Sample, Snapshot, State
from andon.ports import StoreKind
from andon.registry import STORES, load
from andon.settings.store_url import StoreUrl, parse_store_url
from andon.testing.store_contract import AT as AT
from andon.testing.store_contract import GPU as GPU
from andon.testing.store_contract import status as status
from andon.testing.store_contract import tick as tick
from andon.testing.store_contract import upkeep as upkeep
from tests.support.thirdparty_store import Shelf

STORE_URLS = {
    "memory": "memory:",
    "postgresql": "",
    "shelf": "shelf:{}",
    "sqlite": "sqlite:{}/state/history.db",
}
"""One for every store of the registry, and for that of another package; `{}` is a folder of the
test's own, for which PostgreSQL's are made by the server that is started then."""
SCHEMES = [
    pytest.param(scheme, marks=pytest.mark.process if scheme == "postgresql" else ())
    for scheme in sorted(STORE_URLS)
]


def kind_of(scheme: str) -> StoreKind:
    return cast("StoreKind", Shelf if scheme == "shelf" else load(STORES, scheme))


@contextmanager
def reopening(scheme: str, folder: Path, part: str) -> Iterator[Callable[..., Any]]:
    """Yields a function that opens a part of a store for a node, each time as another start of
    andon finds it; what is in memory is opened once."""
    made: list[Any] = []
    known: dict[str, Any] = {}

    def make(node: str = "node-1") -> Any:
        if scheme != "memory" or node not in known:
            known[node] = getattr(kind_of(scheme), part)(url_in(folder, scheme), node)
            made.append(known[node])
        return known[node]

    yield make
    for one in made:
        one.close()
        one.close()


def url_in(folder: Path, scheme: str) -> StoreUrl:
    if scheme == "postgresql":
        from tests.support.postgres import url_of

        return parse_store_url(url_of(folder))
    return parse_store_url(STORE_URLS[scheme].format(folder))


def snapshot(at: float, *processes: Process, state: State = State.OK, **values: object) -> Snapshot:
    sample = Sample(at, **values)  # type: ignore[arg-type]
    device = Device("GPU-1", 0, "nvidia", "H200")
    return Snapshot(
        "n", at, devices=(DeviceStatus(device, state, 0.0, sample=sample, processes=processes),)
    )
