"""Reports of a node while its hub answers, refuses and is away; and what a list of nodes shows."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from andon.alerts.rules.handover import HandedNotice, of_node
from andon.cli.commands.fleet.nodes import describe, render_nodes
from andon.errors import Denied, Unavailable
from andon.explain.conditions.rulebook import Override, Rulebook, thresholds
from andon.failures.rules.backoff import BackOff
from andon.fleet.link import HubLink
from andon.fleet.rules.digest import Digest, NodeTask
from andon.fleet.rules.heartbeat import deflated, read_heartbeat, unpacked_ticks
from andon.fleet.rules.nodes import Heartbeat
from andon.fleet.rules.states import NodeRow, NodeState
from andon.fleet.rules.thresholds import changes_of, rulebook_with
from andon.fleet.uplink import Uplink
from andon.history.rules.notes import HistoryNote, KnownNotes
from andon.leases.rules.verdict import by_readings
from andon.model import wire, wire_in
from andon.model.alert import Alert, Silence
from andon.model.lease_list import LeaseList
from andon.node.connection import TimedConnection
from andon.node.watched.leases import ServedLeases
from andon.node.watched.live import WatchedLive
from andon.node.watched.recorded_past import NoPast
from andon.sampling.rules.readings import checked_snapshot
from andon.web.fleet.leader_duties import found_in
from andon.web.fleet.report import Report, notices_in
from tests.support.notices import HOT, notice
from tests.support.snapshots import farm
from tests.support.waiting import wait_for
from tests.support.web_parts import Hand


class Hub(HubLink):
    """Takes heartbeats, unless it is away; marks the node as drained."""

    def __init__(self) -> None:
        super().__init__("https://hub:1", "x")
        self.taken: list[bytes] = []
        self.away, self.asked = False, 0

    def send(self, path: str, body: bytes) -> dict[str, Any]:
        self.asked += 1
        if self.away:
            raise Unavailable("away")
        self.taken.append(body)
        return {"at": 0.0, "drained": True}


def node_of(
    sampler: Hand,
    alerts: tuple[Alert, ...] = (),
    silences: tuple[Silence, ...] = (),
    handed: tuple[HandedNotice, ...] = (),
    rulebook: Rulebook | None = None,
) -> Any:
    live = WatchedLive(sampler, 0.01)
    notices = SimpleNamespace(hand_over=lambda: handed, handed_over=lambda *_: None)
    said = SimpleNamespace(
        current=lambda: alerts, silences=lambda: silences, firing=dict, notices=notices,
        rulebook=rulebook,
    )  # fmt: skip
    leases = ServedLeases(lambda _: LeaseList(5.0), live.latest)
    runs = SimpleNamespace(find=lambda query: ())
    past = NoPast("history is disabled", "")
    return SimpleNamespace(
        live=live, alerts=said, leases=leases, has_jobs=False, runs=runs, past=past
    )  # fmt: skip


@pytest.mark.slow
def test_readings_of_a_short_outage_come_with_the_next_heartbeat() -> None:
    sampler, hub = Hand(), Hub()
    sent, cordoned, node = list[Digest](), list[str](), node_of(sampler)
    book: Any = SimpleNamespace(cordon=lambda uuid, reason: cordoned.append(uuid))
    listed = LeaseList(5.0, devices=by_readings(farm().devices[:1]))
    node.leases = ServedLeases(lambda _: listed, node.live.latest, book)
    uplink = Uplink(
        node, hub, "m", sent.append, every_seconds=0.05, back_off=BackOff(0.05, 0.05)
    )  # fmt: skip
    hub.away = True
    sampler.bus.publish(farm(), 1.0)
    wait_for(lambda: hub.asked > 1, 20)
    assert uplink.health()["state"] == "failing"
    hub.away = False
    wait_for(lambda: len(sent) > 1, 20)
    uplink.close()
    first, second = (read_heartbeat(body, "node17", 0.0)[0] for body in hub.taken[:2])
    assert len(list(unpacked_ticks(first.ticks))) == 1
    assert list(unpacked_ticks(second.ticks)) == [], "what was acknowledged is not sent again"
    assert first.sequence < second.sequence
    assert cordoned == [farm().devices[0].device.uuid], "a mark is obeyed once"


@pytest.mark.slow
def test_a_report_is_read_as_it_was_sent() -> None:
    sampler, hub, sent = Hand(), Hub(), list[Digest]()
    handed = HandedNotice(notice(HOT), True)
    silence = Silence("s1", 2.0, by="ana")
    hotter = Rulebook(
        thresholds(frozenset({"fan"}), thermal_celsius=60.0),
        [Override(model="H200", figures={"memory_percent": 50.0})],
    )
    node = node_of(sampler, (HOT,), (silence,), (handed,), hotter)
    note = HistoryNote("n1", 1.0, 2.0, 3.0, "new fan", None, "ada")
    node.past = SimpleNamespace(noted=KnownNotes((note,), {"nvml": "12"}))
    uplink = Uplink(node, hub, "m", sent.append)
    sampler.bus.publish(farm(), 1.0)
    wait_for(lambda: sent, 20)
    uplink.close()
    beat = read_heartbeat(hub.taken[0], "node17", time.time())[0]
    report = Report(beat)
    plainly = wire_in.snapshot_from_json(wire.snapshot_to_json(farm()))
    assert report.snapshot == checked_snapshot(plainly)
    assert (report.leases, report.alerts, report.silences) == (LeaseList(5.0), (HOT,), (silence,))
    assert notices_in(beat) == (of_node(handed, "node17"),)
    assert report.noted == KnownNotes((note,)), "versions are in the snapshot"
    found = report.rulebook
    assert found is not None
    assert (found.thresholds, found.overrides) == (hotter.thresholds, hotter.overrides)


def test_a_node_that_reports_no_thresholds_has_none_and_unknown_ones_are_left_out() -> None:
    assert rulebook_with(changes_of(Rulebook())).thresholds == Rulebook().thresholds
    newer = [Override(figures={"brightness_lux": 3.0, "thermal_celsius": 61.0})]
    assert rulebook_with(newer).thresholds == thresholds(thermal_celsius=61.0)


ROWS = (
    NodeRow("n17", NodeState.HEALTHY, 2.0, gpus=8, allocated=6,
            utilization_percent=75.0, memory_percent=61.0, tasks=3, models={"H200": 8},
            temperature_celsius=71.0,
            holders=(NodeTask("alice", "train", 12), NodeTask("bob"), NodeTask("bob"))),
    NodeRow("n18", NodeState.SILENT, 17.0, gpus=4, reason="silent 17 s", models={"A100": 4}),
    NodeRow("n19", NodeState.SILENT, 400.0, gpus=4, reason="silent 7 min", models={"A100": 4}),
    NodeRow("n20", NodeState.SILENT, 400.0, gpus=1, reason="silent 7 min", drained=True),
)  # fmt: skip


def test_the_list_reads_as_people_expect() -> None:
    lines = [line.paint(False).rstrip() for line in render_nodes(ROWS[:2], 100)]
    words = [" ".join(line.split()) for line in lines]
    assert words == [
        "NODE GPUS ALLOCATED UTIL MEM TEMP STATE AGE",
        "n17 8 H200 6 · train of alice, 2 × run of bob 75 % 61 % 71 °C healthy ✓ 2 s",
        "n18 4 A100 – n/a n/a n/a silent 17 s 17 s",
    ]


def test_one_node_in_words() -> None:
    row = NodeRow("n1", NodeState.HEALTHY, None, gpus=1, allocated=1,
                  utilization_percent=85.0, holders=(NodeTask("ada", "ABC"),),
                  models={"RTX 4060": 1})  # fmt: skip
    assert describe(row) == [
        "GPU Capacity: 1 (RTX 4060)",
        "GPU Allocated: 1 (Task ABC of ada running)",
        "GPU Utilization: 85% (real-time)",
        "Status: Healthy ✓",
    ]


def test_a_hub_reports_what_nodes_cannot_know_and_no_silent_one_that_is_drained() -> None:
    doubtful = NodeRow("n21", NodeState.SICK, 2.0, doubt="its clock is 2 h ahead", version="1.0")
    older = NodeRow("n22", NodeState.HEALTHY, 2.0, version="0.9")
    found = {one.subject: one.reason for one in found_in((*ROWS, doubtful, older), "1.0")}
    assert found == {
        "node_silent:n19": "silent 7 min",
        "node_doubtful:n21": "its clock is 2 h ahead",
        "node_version:n22": "andon 0.9, the hub 1.0",
    }


@pytest.mark.parametrize(
    ("url", "sent"),
    [("http://hub:1", False), ("http://10.0.0.7:1", False), ("hub", False), ("https://hub", True),
     ("http://localhost:1", True), ("http://127.0.0.1:1", True), ("http://[::1]:1", True)],
)  # fmt: skip
def test_a_token_is_not_sent_where_others_can_read_it(url: str, sent: bool) -> None:
    HubLink(url, "x", unencrypted=True)
    if sent:
        HubLink(url, "x")
        return
    with pytest.raises(Denied, match="unencrypted") as refused:
        HubLink(url, "x")
    assert "--tls-cert" in refused.value.hint
    assert "ANDON_HUB_UNENCRYPTED=yes" in refused.value.hint


class HalfAway(HubLink):
    """Two hubs of one database, of which those in `away` do not answer."""

    away: frozenset[str] = frozenset()
    status = 200

    def _connected(self, deadline: float) -> TimedConnection:
        return TimedConnection("", 1, deadline, False)

    def _post(self, connection: TimedConnection, path: str, body: bytes) -> tuple[int, bytes, bool]:
        if self.url in self.away:
            raise OSError("refused")
        said = b"{}" if self.status == 200 else b'{"error": {"reason": "full", "hint": "wait"}}'
        return self.status, said, True


def test_the_next_hub_is_tried_where_one_does_not_answer_and_kept() -> None:
    link = HalfAway("https://a, https://b", "x")
    assert link.send("/api/heartbeat", b"") == {}
    assert link.url == "https://a"
    link.away = frozenset({"https://a"})
    link.send("/api/heartbeat", b"")
    assert link.url == "https://b"
    link.away, link.status = frozenset(), 503
    with pytest.raises(Unavailable, match="full"):
        link.send("/api/heartbeat", b"")
    assert link.url == "https://b", "what a hub answers, the other would answer as well"
    link.away = frozenset({"https://a", "https://b"})
    with pytest.raises(Unavailable, match="cannot be reached"):
        link.send("/api/heartbeat", b"")
    assert link.hubs == HalfAway("https://b,https://a", "x").hubs, "in whichever order"


def test_a_pin_is_not_passed_over_on_the_way_to_this_machine() -> None:
    """Whoever listens at a port of this machine would get a token that was meant for one hub."""
    with pytest.raises(Denied, match="unencrypted"):
        HubLink("http://127.0.0.1:1", "x", pin=f"sha256:{'0' * 64}")
    HubLink("http://127.0.0.1:1", "x", pin=f"sha256:{'0' * 64}", unencrypted=True)


def test_another_version_is_shown() -> None:
    row = NodeRow("n1", NodeState.HEALTHY, 2.0, gpus=1, version="0.9", models={"T4": 1})
    assert "healthy ✓ · andon 0.9" in render_nodes([row], 100, "1.0")[1].paint(False)
    assert "andon" not in render_nodes([row], 100, "0.9")[1].paint(False)
    assert describe(row, "1.0")[-1] == "Last report: 2 s ago, andon 0.9, the hub 1.0"


def test_a_snapshot_is_of_the_node_whose_token_it_came_with() -> None:
    report = deflated({"snapshot": wire.snapshot_to_json(replace(farm(), node="n99"))})
    beat = Heartbeat("n17", "s", 1, farm().at, farm().at, b"", report)
    assert Report(beat).snapshot.node == "n17"
