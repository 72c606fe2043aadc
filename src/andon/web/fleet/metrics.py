"""What the metrics of a hub say about its nodes and, where that is set, about their devices."""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from andon.errors import AndonError
from andon.exporter.spreads import FleetReadings, labels
from andon.fleet.rules.nodes import FleetNode, Heartbeat
from andon.fleet.rules.states import SILENT_SECONDS
from andon.model.device import DeviceStatus
from andon.model.naming import device_labels
from andon.web.fleet.hub import Hub
from andon.web.fleet.report import Report
from andon.web.fleet.telling import NodeFailures

MOST_NODES, MOST_GPUS, MOST_OF_NODE = 5000, 10_000, 128
READ_SECONDS = 2.0
"""How long reports are read for one scrape; those that wait longest come first."""
ByLabels = Mapping[str, DeviceStatus]


class FleetMetrics:
    """Called for each scrape and each export; what was read of a report is kept until the next."""

    def __init__(self, hub: Hub, shown: str) -> None:
        """`shown` is the setting `hub.metrics`."""
        self._hub, self._shown = hub, shown
        self._lock, self._failures = threading.Lock(), NodeFailures()
        self._read: dict[str, tuple[float, ByLabels]] = {}
        """The devices of a node, and when the report came that has them."""

    def __call__(self) -> FleetReadings | None:
        if self._shown == "off":
            return None
        found = sorted(self._hub.known(), key=lambda one: one[0].name)[:MOST_NODES]
        left_out, devices = {"nodes": self._hub.count() - len(found)}, dict[str, DeviceStatus]()
        if self._shown == "devices":
            heard = {node: row.gpus for node, row in found if row.heard}
            with self._lock:
                self._read = {node.name: self._recent(node) for node in heard}
                with suppress(AndonError):  # the database is away
                    self._read_again([*heard])
                known = {node: self._read[node.name][1] for node in heard}
            for some in known.values():
                devices |= some if len(devices) + len(some) <= MOST_GPUS else {}
            left_out["gpus"] = max(0, sum(heard.values()) - len(devices))
        return FleetReadings([row for _, row in found], devices, left_out)

    def _recent(self, node: FleetNode) -> tuple[float, ByLabels]:
        """Returns what was last read of a node, unless that is too old."""
        at, found = self._read.get(node.name, (0.0, {}))
        return (at, found) if (node.heard or 0.0) - at < SILENT_SECONDS else (0.0, {})

    def _read_again(self, nodes: Sequence[FleetNode]) -> None:
        until = time.monotonic() + READ_SECONDS
        for node in sorted(nodes, key=lambda one: self._read[one.name][0]):
            if time.monotonic() > until:
                break
            is_new = self._read[node.name][0] < (node.heard or 0.0)
            if is_new and (beats := self._hub.store.beats(node.name)):
                self._read[node.name] = beats[-1].at, {}
                with self._failures.of(node.name, "its GPUs are not in the metrics"):
                    self._read[node.name] = beats[-1].at, _devices_in(beats[-1])


def _devices_in(beat: Heartbeat) -> ByLabels:
    found = Report(beat).snapshot.devices
    names = device_labels(found)
    return {
        labels(node=beat.node, device=names[one.device.uuid], uuid=one.device.uuid): replace(
            one, processes=()
        )
        for one in found[:MOST_OF_NODE]
    }
