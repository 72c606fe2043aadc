"""What the metrics of a hub say about its nodes and, where that is set, about their GPUs."""

import threading
import time
from collections.abc import Iterable, Mapping
from itertools import islice

from msgspec.structs import replace

from andon.errors import AndonError
from andon.exporter.spreads import FleetReadings, labels
from andon.fleet.rules.nodes import FleetNode, Heartbeat
from andon.fleet.rules.states import SILENT_SECONDS
from andon.model.device import DeviceStatus
from andon.model.naming import device_labels
from andon.web.fleet.failures import NodeFailures
from andon.web.fleet.hub import Hub
from andon.web.fleet.report import Report

MOST_NODES, MOST_GPUS, MOST_OF_NODE = 5000, 10_000, 128
READ_SECONDS = 2.0
"""How long reports are read for one scrape; those that wait longest come first."""
ByLabels = Mapping[str, DeviceStatus]
UNREAD: tuple[float, ByLabels] = (0.0, {})


class FleetMetrics:
    """Called for each scrape and each export; caches what it read of a report until the next
    report."""

    def __init__(self, hub: Hub, shown: str) -> None:
        """`shown` is the setting `hub.metrics`."""
        self._hub, self._shown = hub, shown
        self._lock, self._failures = threading.Lock(), NodeFailures()
        self._read: dict[str, tuple[float, ByLabels]] = {}
        """The devices of each node, and when the report came that has them."""

    def __call__(self) -> FleetReadings | None:
        if self._shown == "off":
            return None
        found = sorted(self._hub.known(), key=lambda one: one[0].name)[:MOST_NODES]
        left_out, devices = {"nodes": self._hub.count() - len(found)}, dict[str, DeviceStatus]()
        if self._shown == "devices":
            with self._lock:
                self._read_new(node for node, row in found if row.heard)
                every = (item for _, some in self._read.values() for item in some.items())
                devices = dict(islice(every, MOST_GPUS))
            gpus = sum(one.device.parent is None for one in devices.values())
            left_out["gpus"] = max(0, sum(row.gpus for _, row in found if row.heard) - gpus)
        return FleetReadings([row for _, row in found], devices, left_out)

    def _read_new(self, nodes: Iterable[FleetNode]) -> None:
        """Reads reports that came since; what could not be read for long is left out."""
        until, now = time.monotonic() + READ_SECONDS, dict[str, tuple[float, ByLabels]]()
        for node in sorted(nodes, key=lambda one: self._read.get(one.name, UNREAD)[0]):
            known, heard = self._read.get(node.name, UNREAD), node.heard or 0.0
            if known[0] < heard and time.monotonic() < until:
                try:
                    known = self._reported(node.name)
                except AndonError:  # the database is away
                    until = 0.0
            if heard - known[0] < SILENT_SECONDS:
                now[node.name] = known
        self._read = dict(sorted(now.items()))

    def _reported(self, name: str) -> tuple[float, ByLabels]:
        for beat in self._hub.store.beats(name):
            found: ByLabels = {}
            with self._failures.of(name, "its GPUs are not in the metrics"):
                found = _devices_in(beat)
            return beat.at, found
        return UNREAD


def _devices_in(beat: Heartbeat) -> ByLabels:
    devices = Report(beat).snapshot.devices[:MOST_OF_NODE]
    names = device_labels(devices)
    return {
        labels(node=beat.node, device=names[uuid], uuid=uuid): replace(one, processes=())
        for uuid, one in ((one.device.uuid, one) for one in devices)
    }
