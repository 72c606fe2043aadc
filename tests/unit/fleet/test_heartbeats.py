"""What a node reports to a hub: its digest, its bytes, and what a hub refuses."""

import zlib
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from andon.cli.commands.fleet.nodes import describe, render_nodes
from andon.errors import Invalid
from andon.fleet.rules.digest import Digest, decoded, digest_of, encoded, sent_line
from andon.fleet.rules.heartbeat import (
    NOTICES,
    PART,
    SCHEMA,
    HeartbeatHeader,
    deflated,
    heartbeat_body,
    inflated,
    packed_ticks,
    read_heartbeat,
    unpacked_ticks,
)
from andon.fleet.rules.nodes import FleetNode
from andon.fleet.rules.states import NodeRow, NodeState, having, row_of
from andon.history.rules.series import tick_of
from andon.model.codec import to_json
from andon.model.device import ProcessKind
from andon.model.job.facts import JobState, JobView
from andon.model.lamp import DeviceLamp, Lamp
from andon.model.lease_list import LeaseList
from andon.model.run.record import RunDevice, RunKind, RunRow, RunState
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.model.wire import TextBounds, bare_snapshot
from andon.web.fleet.report import Report, notices_in
from tests.support.notices import HOT, notice
from tests.support.sharing_parts import lease_row
from tests.support.snapshots import farm, h200, uuid, work

HEADER = HeartbeatHeader("a1", 7, 1000.5)
HOST = Digest("n17", "5f0c", "1.0", cpu_percent=2.3, host_memory_percent=39.8, tasks=1)


JOB = JobView(12, "12", "train", JobState.RUNNING, "x", "/", "alice", 1.0, "1")


def digest() -> Digest:
    free = DeviceVerdict(uuid(1), 1, "1", VerdictKind.FREE)
    held = DeviceVerdict(uuid(0), 0, "0", VerdictKind.HELD)
    elsewhere = lease_row("bbbb2", 99)
    rows = (lease_row("k7qm2", 0), lease_row("aaaa2", 1, 2), elsewhere)
    leases = LeaseList(0.0, rows, devices=(held, free))
    return digest_of(farm(), leases, (), {"warning": 2}, {"k7qm2": JOB}, "5f0c", "1.0")


def test_a_digest_has_what_a_list_shows() -> None:
    found = digest()
    assert (found.gpus, found.allocated, found.tasks) == (8, 3, 2)
    assert [one.text for one in found.holders] == ["train of alice", "train of alice"]
    assert found.users == ("alice", "bob", "carolina"), "of leases, then of processes"
    assert found.alerts == {"warning": 2}
    assert [(one.model, one.labels) for one in found.free] == [("H200", ("1",))]


def test_a_lease_of_no_job_is_named_by_its_run() -> None:
    leases = LeaseList(0.0, (lease_row("k7qm2", 0), lease_row("aaaa2", 1, 2)))
    devices = tuple(RunDevice(uuid(n), n, str(n), "H200", None, None) for n in (1, 2))
    rest = (RunKind.COMMAND, RunState.RUNNING, "n17", 1.0, "/x")
    run = RunRow("kqzvmtra", "sweep 3", *rest, user="alice", devices=devices)
    inner = replace(run, name="trainer", parent=run.id)
    found = digest_of(farm(), leases, (), {}, {}, "m", "1.0", runs=(inner, run))
    assert [one.text for one in found.holders] == ["train of alice", "sweep 3 of alice"]
    others = digest_of(farm(), leases, (), {}, {}, "m", "1.0", runs=(replace(run, user="bob"),))
    assert others.holders[1].text == "train of alice", "bob's run is not hers"


def test_who_computes_without_a_lease_is_a_user_and_the_gpu_is_in_use() -> None:
    taken = tuple(DeviceVerdict(uuid(n), n, str(n), VerdictKind.IN_USE) for n in (1, 2))
    leases = LeaseList(0.0, (lease_row("k7qm2", 2),), devices=taken)
    screen = work(8, "gdm", "Xorg", 1, kind=ProcessKind.GRAPHICS)
    busy = replace(h200(1), processes=(work(7, "bob", "python", 40), screen))
    seen = replace(farm(), devices=(h200(0), busy, replace(h200(2), processes=())))
    found = digest_of(seen, leases, (), {}, {}, "m", "1.0")
    assert (found.allocated, found.in_use, found.users) == (1, 1, ("alice", "bob"))
    row = NodeRow("n17", NodeState.HEALTHY, gpus=3, allocated=0, in_use=3)
    (line,) = [text.plain for text in render_nodes([row], 120)[1:]]
    assert "0 · 3 in use" in line
    assert "GPU Allocated: 0; 3 in use without a lease" in describe(row)
    assert digest_of(seen, None, (), {}, {}, "m", "1.0").in_use is None


def test_what_holds_a_gpu_is_named_as_people_know_it() -> None:
    leases = LeaseList(0.0, (lease_row("8x398", 0),))
    found = digest_of(farm(), leases, (), {}, {}, "m", "1.0")
    row = row_of(FleetNode("n17", "", 0.0), found, 1.0)
    (line,) = (one for one in describe(row) if one.startswith("GPU Allocated"))
    assert ("8x398" in line, "alice" in line) == (False, True), line


def test_what_is_not_known_of_leases_has_its_reason() -> None:
    why = "the lease book is on a network file system"
    found = digest_of(farm(), LeaseList(0.0, note=why), (), {}, {}, "m", "1.0")
    row = row_of(FleetNode("n17", "", 0.0), found, 1.0)
    (line,) = (one for one in describe(row) if one.startswith("GPU Allocated"))
    assert line.startswith("GPU Allocated: not known")
    assert why in line


def test_the_mean_is_over_the_devices_that_answered() -> None:
    devices = farm().devices
    busy = [one for one in devices if one.device.index in (0, 2) and one.device.parent is None]
    some = replace(farm(), devices=(*busy, devices[3]))
    found = digest_of(some, None, (), {}, {}, "m", "1.0")
    assert found.utilization_percent == pytest.approx((87 + 100) / 2)
    assert found.allocated is None, "without a lease book nothing is known of it"


def test_a_node_has_the_labels_of_its_settings_whatever_they_are() -> None:
    hostile = ("quiet", "big\x1b[31m", "\udcff", "!" * 5000, *map(str, range(100)))
    found = digest_of(farm(), None, (), {}, {}, "m", "1", share_labels=hostile)
    assert len(found.labels) == 16
    assert max(map(len, found.labels)) == 60
    assert decoded(encoded(found)) == found
    labels = digest_of(farm(), None, (), {}, {}, "m", "1", share_labels=hostile[:3]).labels
    assert labels == ("\\udcff", "big\\x1b[31m", "quiet")
    row = row_of(FleetNode("n17", "", 0.0), replace(found, labels=labels), 1.0)
    assert [one.name for one in having([row], "quiet n17")] == ["n17"]


def test_the_line_of_an_agent() -> None:
    words = "Heartbeat sent: CPU=2.3%, Memory=39.8%, GPU={}, Tasks=1"
    assert sent_line(HOST) == words.format("n/a")
    assert sent_line(replace(HOST, utilization_percent=75.3)) == words.format("75.3%")


def test_a_digest_is_read_back_and_is_short() -> None:
    body = encoded(digest())
    assert decoded(body) == digest()
    assert len(body) < 1000
    many = replace(digest(), holders=("run " + "x" * 400,) * 24)
    assert len(encoded(many)) <= 4096


def test_a_heartbeat_is_read_back() -> None:
    report, ticks = (
        deflated({"snapshot": bare_snapshot(farm())}),
        packed_ticks([tick_of(farm())] * 5),
    )
    body = heartbeat_body(HEADER, encoded(digest()), report, ticks)
    beat, found = read_heartbeat(body, "n1", 2000.0)
    assert found == replace(digest(), node="n1"), "its token names a node, not its host"
    assert (beat.session, beat.sequence, beat.sent, beat.at) == ("a1", 7, 1000.5, 2000.0)
    assert farm().node != Report(beat).snapshot.node == "n1"
    assert list(unpacked_ticks(beat.ticks)) == [tick_of(farm())] * 5
    later = list(unpacked_ticks(beat.ticks, 10.0))
    assert later[0].at == tick_of(farm()).at + 10


GOOD = heartbeat_body(HEADER, encoded(replace(HOST, node="n17")), b"", b"")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda body: b"nonsense", "not a heartbeat"),
        (lambda body: b"", "not a heartbeat"),
        (lambda body: body.replace(b"/2\n", b"/3\n"), "does not know this form"),
        (lambda body: body[:-1], "cut off"),
        (lambda body: body + b"x", "more than it says"),
        (lambda body: SCHEMA + b"\xff" * 40, "cut off"),
        (lambda body: body.replace(b'"sequence":7', b'"sequence":-'), "."),
        (lambda body: body.replace(b'"sent":1000.5', b'"sent":-100.5'), "sent"),
        (lambda body: body.replace(b'"gpus":0', b'"gpus":x'), "."),
        (lambda body: body.replace(b'"tasks":1', b'"tasks":[') , "."),
    ],
)  # fmt: skip
def test_what_is_not_a_heartbeat_is_refused_with_the_reason(
    spoil: Callable[[bytes], bytes], words: str
) -> None:
    read_heartbeat(GOOD, "n17", 0.0)
    with pytest.raises(Invalid, match=words):
        read_heartbeat(spoil(GOOD), "n17", 0.0)


def test_a_bomb_is_not_unpacked() -> None:
    with pytest.raises(Invalid, match="too large"):
        inflated(zlib.compress(b"[" * (PART.length + 1), 1), PART)
    with pytest.raises(Invalid, match="cannot be unpacked"):
        inflated(b"nonsense", PART)
    with pytest.raises(Invalid, match="cut off"):
        inflated(zlib.compress(b"{}" * 1000)[:-4], PART)


def test_ticks_with_other_lengths_than_names_are_refused() -> None:
    group = {"devices": ["a"], "metrics": [["x", "y"]], "ticks": [{"at": 1.0, "values": [[1]]}]}
    with pytest.raises(Invalid, match="lengths"):
        list(unpacked_ticks(deflated({"groups": [group]})))
    with pytest.raises(Invalid, match="not valid"):
        list(unpacked_ticks(deflated({"groups": [{"devices": 5}]})))


@pytest.mark.parametrize(
    ("rule", "reason"),
    [("thermal", "GPU 0: too hot"), ("idle_lease", None), ("idle", None)],
)
def test_a_node_is_sick_by_what_is_broken_and_not_by_what_is_idle(
    rule: str, reason: str | None
) -> None:
    some = replace(farm(), faults=())
    lamp = DeviceLamp(some.devices[0].device.uuid, 0, Lamp.AMBER, "too hot", rule=rule)
    assert digest_of(some, None, (lamp,), {}, {}, "m", "1.0").reason == reason


@pytest.mark.parametrize("bounds", [PART, NOTICES])
def test_a_part_of_many_values_is_not_decoded(bounds: TextBounds) -> None:
    """Twenty kilobytes that become five million lists take a hub seconds, and a gigabyte."""
    text = b'{"x":[' + b"[]," * bounds.values + b"[]]}"
    with pytest.raises(Invalid, match="values"):
        inflated(zlib.compress(text, 9), bounds)


def test_notices_are_apart_from_the_report() -> None:
    """Whoever sends them to people does not read the rest, whatever it is."""
    told = deflated({"notices": [{"notice": to_json(notice(HOT))}]})
    body = heartbeat_body(HEADER, encoded(digest()), b"a bomb", b"another", told)
    beat, _ = read_heartbeat(body, "node17", 2000.0)
    assert [one.notice.node for one in notices_in(beat)] == ["node17"]
    with pytest.raises(Invalid):
        Report(beat)
