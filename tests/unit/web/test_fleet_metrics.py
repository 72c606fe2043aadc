"""What the metrics of a hub have of its nodes: what is known, bounded, each report read once."""

import time
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from andon.errors import Unavailable
from andon.exporter import Exposition
from andon.exporter.spreads import FleetReadings, ServerCounts
from andon.fleet.rules.digest import decoded, digest_of, encoded
from andon.fleet.rules.heartbeat import deflated
from andon.fleet.rules.nodes import FleetNode, Heartbeat
from andon.leases.rules.verdict import by_readings
from andon.model.device import Snapshot
from andon.model.lease_list import LeaseList
from andon.model.wire import snapshot_to_json
from andon.web.fleet import metrics
from andon.web.fleet.hub import Hub
from andon.web.fleet.metrics import FleetMetrics
from tests.support.exposition import Family, parse
from tests.support.replaced import constants
from tests.support.snapshots import farm, h200, no_gpu, uuid

HEARD = replace(farm(), simulated=True)
BOARDS, DEVICES = 8, 10


class Nodes:
    """A database of nodes that reported, which counts the reports that are read."""

    def __init__(self, *names: str) -> None:
        self._kept = {name: FleetNode(name, name, 0.0) for name in names}
        self._beats = dict[str, Heartbeat]()
        self.read, self.is_away = list[str](), False
        self.hub = Hub(lambda: self)  # type: ignore[arg-type,return-value]
        for name in names:
            self.report(name)

    def report(self, name: str, snapshot: Snapshot = HEARD, ago: float = 0.0) -> None:
        at = time.time() - ago
        leases = LeaseList(at, devices=by_readings(snapshot.devices))
        digest = encoded(digest_of(snapshot, leases, (), {"critical": 1, "odd": 1}, {}, "m", "1"))
        report = deflated({"snapshot": snapshot_to_json(replace(snapshot, at=at))})
        self._beats[name] = Heartbeat(name, "s", 1, at, at, digest, report)
        self._kept[name] = replace(self._kept[name], heard=at, sent=at, digest=digest)
        self.hub.nodes(-1.0)

    def break_report(self, name: str) -> None:
        self._beats[name] = replace(self._beats[name], snapshot=b"nonsense")

    def drain(self, name: str) -> None:
        self._kept[name] = replace(self._kept[name], drained=True)
        self.hub.nodes(-1.0)

    def nodes(self) -> Sequence[FleetNode]:
        return list(self._kept.values())

    def beats(self, name: str, since: float | None = None) -> Sequence[Heartbeat]:
        self.read.append(name)
        if self.is_away:
            raise Unavailable("the database is away")
        return [self._beats[name]]


def readings(fleet: FleetMetrics) -> FleetReadings:
    found = fleet()
    assert found is not None
    return found


def shown(found: FleetReadings) -> dict[str, Family]:
    counts = ServerCounts(fleet=found)
    return parse(Exposition().render(no_gpu(), None, 1.0, None, counts))


def of(found: FleetReadings, **labels: str) -> dict[str, float]:
    """The values of all series with these labels, by their names without the prefix."""
    wanted = set(labels.items())
    return {
        name.removeprefix("andon_"): value
        for name, family in shown(found).items()
        for series, value in family.series.items()
        if wanted <= series
    }


def test_of_nodes_alone_no_report_is_read() -> None:
    nodes = Nodes("n17", "n18")
    found = readings(FleetMetrics(nodes.hub, "nodes"))
    assert [row.name for row in found.rows] == ["n17", "n18"]
    assert (found.devices, found.left_out, nodes.read) == ({}, {"nodes": 0}, [])
    assert FleetMetrics(nodes.hub, "off")() is None


def test_a_node_that_is_heard_has_what_its_row_says() -> None:
    nodes = Nodes("n17")
    found = readings(FleetMetrics(nodes.hub, "nodes"))
    (row,) = found.rows
    said = of(found, node="n17")
    assert said["hub_node_gpus"] == row.gpus == BOARDS
    assert said["hub_node_gpus_free"] == sum(len(group.labels) for group in row.free) > 0
    assert said["hub_node_temperature_celsius"] == 84
    assert said["hub_node_utilization_ratio"] == (row.utilization_percent or 0) / 100
    assert said["hub_node_simulated"] == 1
    assert of(found, node="n17", state=row.state.value)["hub_node_state"] == 1
    levels = {dict(series).get("level") for series in shown(found)["andon_hub_node_alerts"].series}
    assert levels == {"critical"}, "not whatever a node calls a level"
    nodes.drain("n17")
    assert of(readings(FleetMetrics(nodes.hub, "nodes")), node="n17")["hub_node_gpus_free"] == 0


def test_what_leases_hold_is_left_out_where_it_is_not_known() -> None:
    nodes = Nodes("n17")
    (row,) = readings(FleetMetrics(nodes.hub, "nodes")).rows
    unknown = replace(row, allocated=None, in_use=None, free=(), temperature_celsius=None)
    said = of(FleetReadings([unknown], {}, {}), node="n17")
    assert "hub_node_gpus" in said
    assert not {"hub_node_gpus_allocated", "hub_node_gpus_in_use", "hub_node_gpus_free",
                "hub_node_temperature_celsius"} & set(said)  # fmt: skip


def test_a_silent_node_keeps_its_state_and_its_age() -> None:
    nodes = Nodes("n17")
    nodes.report("n17", ago=100.0)
    found = readings(FleetMetrics(nodes.hub, "devices"))
    said = of(found, node="n17")
    assert set(said) == {"hub_node_state", "hub_node_age_seconds", "hub_node_drained"}
    assert said["hub_node_age_seconds"] >= 100
    assert of(found, node="n17", state="silent") == {"hub_node_state": 1}
    assert (found.left_out, nodes.read) == ({"nodes": 0, "gpus": 0}, [])


def test_a_node_that_never_reported_has_no_age() -> None:
    nodes = Nodes()
    nodes._kept["n19"] = FleetNode("n19", "x", 0.0)
    nodes.hub.nodes(-1.0)
    found = readings(FleetMetrics(nodes.hub, "nodes"))
    assert set(of(found, node="n19")) == {"hub_node_state", "hub_node_drained"}


def test_a_report_is_read_once_whoever_asks() -> None:
    nodes = Nodes("n17", "n18")
    fleet = FleetMetrics(nodes.hub, "devices")
    first = readings(fleet)
    assert readings(fleet).devices == first.devices
    assert sorted(nodes.read) == ["n17", "n18"]
    assert len(first.devices) == 2 * DEVICES
    busy = of(first, node="n17", device="2")
    assert busy["hub_gpu_temperature_celsius"] == 84
    assert busy["hub_gpu_utilization_ratio"] == 1.0
    lost = of(first, node="n17", device="3")
    assert set(lost) == {"hub_gpu_state"}, "no reading that was not made"
    nodes.report("n18", replace(HEARD, devices=HEARD.devices[:1]))
    assert len(readings(fleet).devices) == DEVICES + 1
    assert sorted(nodes.read) == ["n17", "n18", "n18"]


def test_reports_are_read_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes("n17", "n18")
    fleet = FleetMetrics(nodes.hub, "devices")
    constants(monkeypatch, metrics, READ_SECONDS=-1.0)
    found = readings(fleet)
    assert (found.devices, nodes.read) == ({}, [])
    assert of(found, kind="gpus")["hub_left_out"] == 2 * BOARDS
    constants(monkeypatch, metrics, READ_SECONDS=60.0)
    before = readings(fleet).devices
    constants(monkeypatch, metrics, READ_SECONDS=-1.0)
    nodes.report("n17", replace(HEARD, devices=()))
    assert readings(fleet).devices == before, "of a report of seconds ago"
    constants(monkeypatch, metrics, SILENT_SECONDS=-1.0)
    assert not readings(fleet).devices, "not of an old one"


def test_a_report_that_cannot_be_read_costs_its_node_alone() -> None:
    nodes = Nodes("n17", "n18")
    nodes.break_report("n17")
    fleet = FleetMetrics(nodes.hub, "devices")
    found = readings(fleet)
    assert {dict(series)["node"] for series in shown(found)["andon_hub_gpu_state"].series} == {
        "n18"
    }
    assert found.left_out["gpus"] == BOARDS
    readings(fleet)
    assert nodes.read == ["n17", "n18"], "nor is it tried again"


def test_without_its_database_a_hub_exports_what_it_knows() -> None:
    nodes = Nodes("n17", "n18")
    nodes.is_away = True
    found = readings(FleetMetrics(nodes.hub, "devices"))
    assert len(found.rows) == 2
    assert found.left_out["gpus"] == 2 * BOARDS
    assert len(nodes.read) == 1, "the others would wait as long"


def test_while_reports_cannot_be_stored_nobody_is_called_silent() -> None:
    nodes = Nodes("n17", "n18")
    nodes.report("n17", ago=100.0)
    nodes.hub.failed_at = time.monotonic()
    found = readings(FleetMetrics(nodes.hub, "nodes"))
    assert ([row.name for row in found.rows], found.left_out) == (["n18"], {"nodes": 1})
    nodes.hub.failed_at = float("-inf")
    nodes.hub.read_at -= 3600.0
    assert [row.name for row in readings(FleetMetrics(nodes.hub, "nodes")).rows] == ["n18"]


def test_the_number_of_series_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes("n17", "n18", "n19")
    constants(monkeypatch, metrics, MOST_NODES=2, MOST_OF_NODE=3, MOST_GPUS=5)
    found = readings(FleetMetrics(nodes.hub, "devices"))
    assert [row.name for row in found.rows] == ["n17", "n18"]
    assert len(found.devices) == 5
    assert found.left_out == {"nodes": 1, "gpus": 2 * BOARDS - 5}


def test_a_node_that_names_a_device_twice_spoils_no_scrape() -> None:
    nodes = Nodes("n17")
    twice = replace(h200(1), device=replace(h200(1).device, uuid=uuid(0)))
    nodes.report("n17", replace(HEARD, devices=(h200(0), replace(twice))))
    found = readings(FleetMetrics(nodes.hub, "devices"))
    assert len(found.devices) == len(set(found.devices))
    assert shown(found)["andon_hub_gpu_state"].series


def test_what_a_hub_hears_itself_is_there_at_once() -> None:
    nodes = Nodes("n17")
    fleet = FleetMetrics(nodes.hub, "nodes")
    beat = replace(nodes._beats["n17"], at=time.time())
    nodes.hub.hear(beat, replace(decoded(beat.digest), gpus=3))
    assert of(readings(fleet), node="n17")["hub_node_gpus"] == 3
