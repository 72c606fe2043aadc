"""A snapshot's text is what the wire says, however much of it was kept from the one before."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from socketio import packet

from andon.access.roles import ALL_SEEING, BLIND, Sight
from andon.model import wire
from andon.model.device import DeviceStatus, Disk, Sample, Snapshot, State
from andon.node.seen.sights import HIDDEN, HIDDEN_OTHERS, seen_by
from andon.node.seen.texts import MOST_SIGHTS, SnapshotTexts
from andon.web.bindings.live_server import Packet, Prepared
from tests.support import snapshots as drawn
from tests.support.rows import rows
from tests.support.web_parts import Parts, served

NODES = (drawn.farm(), drawn.masked(), drawn.simulated(), drawn.no_gpu(), drawn.faults(),
         drawn.office(), drawn.launched())  # fmt: skip


ALICE = Sight(user="alice")
SIGHTS = (BLIND, ALL_SEEING, ALICE, Sight(user="nobody here"))


def expected(snapshot: Snapshot, sight: Sight) -> object:
    """Who has nothing here is told what everyone is told."""
    has = any(p.user == sight.user and p.command for s in snapshot.devices for p in s.processes)
    shown = seen_by(sight if sight.everything or has else BLIND, snapshot)
    return json.loads(wire.dumps(wire.snapshot_to_json(shown)))


@rows("sight", SIGHTS)
@rows("node", range(len(NODES)))
def test_the_text_says_what_the_wire_says(node: int, sight: Sight) -> None:
    text = SnapshotTexts().of(NODES[node], sight)
    assert json.loads(text) == expected(NODES[node], sight)
    if sight is ALL_SEEING:
        assert text == wire.dumps(wire.snapshot_to_json(NODES[node]))


Change = Callable[[DeviceStatus], DeviceStatus]
CHANGES: st.SearchStrategy[Change] = st.sampled_from(
    [
        lambda s: s,
        lambda s: replace(s, visible=not s.visible, cuda_index=None),
        lambda s: replace(s, state=State.LOST, reason="fallen off the bus", processes=()),
        lambda s: replace(s, state=State.OK, reason=None),
        lambda s: replace(s, sample=None),
        lambda s: replace(s, sample=Sample(5.0, power_watts=1.5, read_at={"fan_percent": 1.0})),
        lambda s: replace(s, sample=s.sample and replace(s.sample, memory_used_bytes=10**9)),
        lambda s: replace(s, missing={"processes": "no permission"}),
        lambda s: replace(s, processes=s.processes[1:]),
        lambda s: replace(s, processes=tuple(replace(p, command="x --y") for p in s.processes)),
        lambda s: replace(s, processes=tuple(replace(p, command=None) for p in s.processes)),
        lambda s: replace(s, device=replace(s.device, name="another \N{SNOWMAN} name")),
    ]
)


@given(
    steps=st.lists(
        st.tuples(st.integers(0, len(NODES) - 1), st.booleans(), st.sampled_from(SIGHTS),
                  st.lists(CHANGES, max_size=3)), max_size=8)
)  # fmt: skip
def test_what_is_kept_never_outlives_what_it_says(
    steps: list[tuple[int, bool, Sight, list[Change]]],
) -> None:
    """The same texts, asked for one snapshot after another, of changing devices."""
    texts, current = SnapshotTexts(), NODES[0]
    for number, (node, other, sight, changes) in enumerate(steps):
        current = replace(NODES[node] if other else current, at=float(number))
        for change in changes:
            first, rest = current.devices[:1], current.devices[1:]
            current = replace(current, devices=(*map(change, first), *rest))
        assert json.loads(texts.of(current, sight)) == expected(current, sight)


def test_a_snapshot_is_written_once_for_all_who_ask() -> None:
    texts, farm = SnapshotTexts(), drawn.farm()
    assert texts.of(farm, BLIND) is texts.of(farm, BLIND)
    assert texts.of(farm, ALL_SEEING) is texts.of(farm, ALL_SEEING)
    assert texts.of(farm, Sight(user="idle")) is texts.of(farm, BLIND)
    assert HIDDEN in texts.of(farm, BLIND)
    assert HIDDEN not in texts.of(farm, ALL_SEEING)


def test_a_user_sees_the_own_commands_and_of_others_only_programs() -> None:
    farm = drawn.farm()
    users = {p.user for s in farm.devices for p in s.processes if p.command}
    assert len(users) > 1
    for user in users:
        shown = json.loads(SnapshotTexts().of(farm, Sight(user=user)))
        seen = [p for d in shown["devices"] for p in d["processes"] if p["command"] is not None]
        assert {p["user"] for p in seen} == {user}
        assert all(p["name"] for d in shown["devices"] for p in d["processes"])
        assert HIDDEN_OTHERS in json.dumps(shown)


def test_the_texts_of_many_users_are_bounded() -> None:
    texts, farm = SnapshotTexts(), drawn.farm()
    [first, *rest] = farm.devices
    for number in range(3 * MOST_SIGHTS):
        own = tuple(replace(p, user=f"user{number}") for p in first.processes)
        shown = replace(farm, devices=(replace(first, processes=own), *rest))
        assert f"user{number}" in texts.of(shown, Sight(user=f"user{number}"))
    assert len(texts._texts) <= MOST_SIGHTS


def test_a_number_that_json_does_not_have_is_refused() -> None:
    farm = drawn.farm()
    first = replace(farm.devices[0], sample=Sample(1.0, power_watts=float("nan")))
    with pytest.raises(ValueError, match="JSON"):
        SnapshotTexts().of(replace(farm, devices=(first,)), ALL_SEEING)


def test_a_name_that_is_no_text_can_be_sent() -> None:
    farm = drawn.farm()
    odd = replace(farm, host=replace(farm.host, disk=(Disk("/mnt/\udcff é", 1, 2),)))
    text = SnapshotTexts().of(odd, ALL_SEEING)
    assert json.loads(text.encode())["host"]["disk"][0]["mount"] == "/mnt/? é"


@pytest.mark.slow
def test_answers_with_a_name_that_is_no_text_can_be_sent(tmp_path: Path) -> None:
    farm = drawn.farm()
    odd = replace(farm, host=replace(farm.host, disk=(Disk("/mnt/\udcff", 1, 2),)))
    with served(Parts(tmp_path, [odd])) as caller:
        for path in ("/api/system", "/api/snapshots", "/api/snapshot"):
            assert caller.get(path).status_code == 200, path


@pytest.mark.parametrize("value", [{"a": ["é", None, 1.5]}, [], "text", 3])
def test_a_prepared_packet_reads_as_the_library_writes_it(value: object) -> None:
    ready = Prepared(json.dumps(value))
    ours = Packet(packet.EVENT, namespace="/", data=["snapshot", ready]).encode()
    theirs = packet.Packet(packet.EVENT, namespace="/", data=["snapshot", value]).encode()
    read, meant = (packet.Packet(encoded_packet=text) for text in (ours, theirs))
    assert (read.packet_type, read.data) == (meant.packet_type, meant.data)


@pytest.mark.parametrize(
    ("kind", "data", "number"),
    [
        (packet.EVENT, ["gpu_status", {"gpus": []}], None),
        (packet.EVENT, ["bare"], None),
        (packet.ACK, [{"subscribed": ["snapshot"]}], 7),
        (packet.CONNECT, {"sid": "x"}, None),
        (packet.DISCONNECT, None, None),
    ],
)
def test_other_packets_are_the_librarys_own(kind: int, data: object, number: int | None) -> None:
    ours = Packet(kind, namespace="/", data=data, id=number).encode()
    assert ours == packet.Packet(kind, namespace="/", data=data, id=number).encode()
