"""A command that shows devices once takes what this machine's server knows, if it is genuine."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from andon.access.local_rest import RestAnswer
from andon.cli.sources import node_of
from andon.cli.terminal import Choices
from andon.host.machine_id import boot_id, node_name
from andon.leases.book.lease_book import Book
from andon.model import wire
from andon.model.alert import AlertList
from andon.model.device import (
    COMMANDS_MISSING,
    UNWATCHED,
    Device,
    DeviceStatus,
    Process,
    Snapshot,
    State,
)
from andon.model.lamp import Lamp
from andon.model.vendors import AMD
from andon.model.verdict import VerdictKind
from andon.node.latest_snapshot import ServerReply, server_snapshot
from andon.node.local.live import LocalLive
from andon.sampling.rules.server_snapshot import (
    ServerSnapshot,
    parse_interval,
    with_known,
)
from tests.support.local_rest import Asked, answering
from tests.support.rows import rows
from tests.support.snapshots import h200, silent, work
from tests.support.surroundings import server_may_run

NOW = 1_800_000_000.0


def seen(*devices: DeviceStatus, at: float = NOW, **more: Any) -> Snapshot:
    return replace(Snapshot(node_name(), at, boot=boot_id(), devices=devices), **more)


# What the server knows of devices that a new process cannot read.


def unnamed(index: int, state: State = State.STALE, pci: str | None = None) -> DeviceStatus:
    """A device that never answered this process: not even its model is known."""
    device = Device(f"nvidia@{pci or index}", index, "nvidia", "GPU", pci)
    return DeviceStatus(device, state, NOW, "driver call stuck for 1 s", "look")


def test_a_device_that_never_answered_here_is_what_the_server_knows() -> None:
    before = silent(0, State.STALE, "driver call stuck for 26 s", "reboot", 26)
    before = replace(before, last_users=("alice",))
    told = seen(before, h200(1))
    for fresh in (unnamed(0), unnamed(0, pci=before.device.pci), replace(before, since=NOW)):
        (found, other) = with_known(seen(fresh, h200(1)), told).devices
        assert found == before
        assert other == h200(1)


def test_a_state_of_its_own_keeps_its_time_and_who_was_on_it_is_known() -> None:
    """The server's last snapshot is from before the device was lost."""
    fresh = unnamed(0, State.LOST)
    before = replace(h200(0), processes=(work(7, "bob", "x", 1.0),))
    (found,) = with_known(seen(fresh), seen(before)).devices
    assert (found.state, found.since, found.reason) == (fresh.state, fresh.since, fresh.reason)
    assert (found.device.uuid, found.last_users) == (h200(0).device.uuid, ("bob",))


def test_a_device_that_answers_is_as_it_was_read() -> None:
    told = seen(silent(0, State.LOST, "gone", None, 60))
    assert with_known(seen(h200(0)), told).devices == (h200(0),)


def test_a_device_with_another_identity_is_not_taken_for_a_known_one() -> None:
    """Number 1 of the server is number 0 here: it answers, and is known by its UUID."""
    fresh = (unnamed(1), replace(h200(1), device=replace(h200(1).device, index=0)))
    assert with_known(seen(*fresh), seen(h200(1))).devices == fresh


@rows(
    "age, old",
    [(0.0, False), (2.0, False), (2.1, True), (-5.0, False)],
)
def test_a_snapshot_is_old_after_two_intervals(age: float, old: bool) -> None:
    assert ServerSnapshot(seen(), 1.0).is_old(NOW + age) is old


@rows(
    "text, seconds",
    [("0.5", 0.5), ("10", 10.0), (None, 1.0), ("", 1.0), ("soon", 1.0), ("nan", 1.0), ("-1", 1.0)],
)
def test_the_interval_is_the_servers_or_the_usual_one(text: str | None, seconds: float) -> None:
    assert parse_interval(text, 1.0) == seconds


def test_watched_readings_are_missing_only_where_a_device_answers_without_them() -> None:
    lacking = {"sm_active_percent": UNWATCHED}
    hung = replace(silent(0, State.STALE, "stuck", None, 5), missing=lacking)
    assert ServerSnapshot(seen(h200(1), hung), 1.0).has_everything
    assert not ServerSnapshot(seen(replace(h200(1), missing=lacking)), 1.0).has_everything


# The exchange.

PORT = 20_000 + 2 * os.getpid() % 40_000  # only in names: other runs have others


@pytest.fixture
def server(state_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """A server of this user at the usual port."""
    monkeypatch.setenv("ANDON_PORT", str(PORT))
    server_may_run(monkeypatch, True)
    with answering(PORT) as made:
        yield made


def live(choices: Choices | None = None) -> LocalLive:
    found = node_of(choices or Choices()).live
    assert isinstance(found, LocalLive)
    return found


def say(server: Asked, snapshot: Snapshot, interval: str = "1") -> None:
    text = json.dumps(wire.snapshot_to_json(snapshot)).encode()
    server.answers["/api/snapshot"] = RestAnswer(200, text, interval)


def test_minutes_that_a_server_does_not_say_are_as_without_one(server: Asked) -> None:
    now = seen(h200(0), at=time.time())
    say(server, now)
    page = {"schema": AlertList.schema, "node": now.node, "at": now.at, "simulated": False}
    server.answers["/api/alerts?limit=1"] = RestAnswer(200, json.dumps(page).encode())
    for status, said, count in ((200, {"items": [wire.snapshot_to_json(now)] * 3}, 3),
                                (503, {"error": {"reason": "it ends", "hint": ""}}, 0),
                                (200, ["something else"], 0)):  # fmt: skip
        server.answers["/api/snapshots"] = RestAnswer(status, json.dumps(said).encode())
        assert len(live().minutes()) == count


def test_one_exchange_with_the_own_server_is_enough(server: Asked) -> None:
    say(server, seen(h200(0), at=time.time()), "30")
    found = live().latest()
    assert [one.device.uuid for one in found.devices] == [h200(0).device.uuid]
    assert server.frames == [("/api/snapshot", "/api/board", "/api/leases")]


def test_masks_are_those_of_this_process(server: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    say(server, seen(h200(0), h200(1), at=time.time()), "30")
    found = live().latest()
    assert [(one.visible, one.cuda_index) for one in found.devices] == [(False, None), (True, 0)]


def test_command_lines_that_the_server_withholds_come_from_proc(server: Asked) -> None:
    """Only of the same process: one that took its pid is another."""
    from andon.host.processes.facts import ProcessTable

    (here,) = ProcessTable().attribute([Process(os.getpid())])
    mine = replace(here, command=None)
    reused = replace(mine, started=(mine.started or 0.0) - 60.0)
    withheld = {COMMANDS_MISSING: "shown to callers with the token"}
    known, other = (
        replace(h200(n), processes=(one,), missing=withheld) for n, one in enumerate((mine, reused))
    )
    say(server, seen(known, other, at=time.time()), "30")
    filled, left = live().latest().devices
    assert (filled.processes[0].command, filled.missing) == (here.command, {})
    assert (left.processes[0].command, left.missing) == (None, withheld)


@rows("choices", [Choices(fresh=True), Choices(simulate=2)])
def test_nobody_is_asked_where_the_devices_are_to_be_read_or_others(choices: Choices) -> None:
    assert live(choices).ask_server() is None


@pytest.mark.parametrize(
    "other",
    [
        {"node": "elsewhere"},
        {"boot": "another"},
        {"node": "elsewhere", "simulated": True},
        {"versions": {"replay": "x"}},
        {"simulated": True, "versions": {"replay": "day.jsonl"}},
    ],
)
def test_other_devices_than_this_machines_are_not_taken(
    server: Asked, other: dict[str, Any]
) -> None:
    say(server, seen(h200(0), at=time.time(), **other))
    assert live().ask_server() is None
    assert server.frames


def test_simulated_devices_are_taken_where_the_machine_has_none(
    server: Asked, tmp_path: Path
) -> None:
    say(server, seen(h200(0), at=time.time(), simulated=True))
    assert server_snapshot(None, tmp_path, 1.0) is not None
    (tmp_path / "sys/bus/pci/drivers" / AMD.drivers[0] / "0000:19:00.0").mkdir(parents=True)
    assert server_snapshot(None, tmp_path, 1.0) is None


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (503, b"{}"), (200, b""), (200, b"<html>"), (200, b'{"schema": "x"}'), (200, b"\xff"),
        (200, b"[]"), (200, b"[" * 5000), (200, b'{"schema":"andon.snapshot/1","devices":[{}]}'),
        (200, b'{"schema":"andon.snapshot/1","host":[],"devices":{"state":1}}'),
    ],
)  # fmt: skip
def test_what_answers_otherwise_is_not_taken(server: Asked, status: int, body: bytes) -> None:
    server.answers["/api/snapshot"] = RestAnswer(status, body)
    assert live().ask_server() is None


# What it says besides.


def told(server: Asked) -> ServerReply:
    say(server, seen(h200(0), h200(1), at=time.time()))
    found = live().ask_server()
    assert found is not None
    return found


def lamp(uuid: str, lamp: str = "amber") -> dict[str, object]:
    about = {"index": 0, "status": "too hot", "severity": 70, "lit_by": None}
    return {"uuid": uuid, "lamp": lamp, **about}


def board(*lamps: dict[str, object], **more: object) -> RestAnswer:
    about = {"schema": "andon.board/1", "node": node_name(), "simulated": False, "devices": lamps}
    return RestAnswer(200, json.dumps({**about, **more}).encode())


def test_its_lamps_are_in_the_order_of_the_devices(server: Asked) -> None:
    uuids = [h200(n).device.uuid for n in (0, 1)]
    server.answers["/api/board"] = board(lamp(uuids[1]), lamp("GPU-x"), lamp(uuids[0], "red"))
    lamps = told(server).lamps() or ()
    assert [(one.uuid, one.lamp, one.severity) for one in lamps] == [
        (uuids[0], Lamp.RED, 70),
        (uuids[1], Lamp.AMBER, 70),
    ]


def test_lamps_of_other_devices_or_none_are_not_taken(server: Asked) -> None:
    whole = [lamp(h200(n).device.uuid) for n in (0, 1)]
    assert told(server).lamps() is None, "it has no board"
    for given in (
        board(*whole[:1]),
        board(*whole, node="elsewhere"),
        board(*whole, simulated=True),
        board(*whole, schema="andon.board/2"),
        board({"uuid": 5}),
        RestAnswer(503, b"{}"),
    ):
        server.answers["/api/board"] = given
        assert told(server).lamps() is None


def leases(**more: object) -> RestAnswer:
    devices = [
        {"uuid": h200(n).device.uuid, "index": n, "label": str(n), "kind": "free"} for n in (0, 1)
    ]
    about = {"schema": "andon.leases/1", "at": time.time() + 60, "waiting": [], "devices": devices}
    return RestAnswer(200, json.dumps({**about, **more}).encode())


def test_its_verdicts_are_taken_where_they_are_the_same_for_everyone(
    server: Asked, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers["/api/leases"] = leases()
    assert [one.kind for one in told(server).verdicts() or ()] == [VerdictKind.FREE] * 2
    place = {"position": 1, "user": "ada", "gpus": 1, "since": 1.0, "priority": 0}
    for given in (leases(waiting=[place]), leases(devices=[]), leases(at=1.0), leases(at="x")):
        server.answers["/api/leases"] = given
        assert told(server).verdicts() is None
    server.answers["/api/leases"] = leases()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert told(server).verdicts() is None, "another may use what is hidden here"


def test_an_old_snapshot_is_said_to_be_old_and_not_shown(
    server: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    say(server, seen(h200(0), at=time.time() - 14), "1")
    old = live().ask_server()
    assert live().recent(old) is None
    assert "the server's last reading is 14 s old" in capsys.readouterr().err
    say(server, seen(h200(0), at=time.time() - 14), "60")
    slow = live().ask_server()
    assert slow is not None
    assert live().recent(slow) == slow.reading.snapshot
    assert capsys.readouterr().err == ""


def test_an_old_snapshot_still_says_since_when_a_device_is_silent(server: Asked) -> None:
    before = replace(silent(0, State.LOST, "gone", None, 60), last_users=("alice",))
    say(server, seen(before, at=time.time() - 60))

    class Played(LocalLive):
        def read(self, *_: object, **__: object) -> Snapshot:
            return seen(unnamed(0, State.LOST))

    (found,) = Played(live(Choices(quiet=True))._context).latest().devices
    assert (found.since, found.reason, found.last_users) == (before.since, "gone", ("alice",))
