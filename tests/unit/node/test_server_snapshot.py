"""A command that shows devices once takes what this machine's server knows, if it is genuine."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from andon.cli.sources import node_of
from andon.cli.terminal import Choices
from andon.host.machine_id import boot_id, node_name
from andon.host.state import server_file
from andon.model import wire
from andon.model.device import (
    COMMANDS_MISSING,
    UNWATCHED,
    Device,
    DeviceStatus,
    Process,
    Snapshot,
    State,
)
from andon.node.local.live import LocalLive
from andon.sampling.rules.told import (
    INTERVAL_HEADER,
    ServerSnapshot,
    parse_interval,
    remembering,
)
from tests.support.homes import made_node_state
from tests.support.proving import TOKEN, Proving, proving
from tests.support.rows import rows
from tests.support.snapshots import h200, silent, work

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
        (found, other) = remembering(seen(fresh, h200(1)), told).devices
        assert found == before
        assert other == h200(1)


def test_a_state_of_its_own_keeps_its_time_and_who_was_on_it_is_known() -> None:
    """The server's last snapshot is from before the device was lost."""
    fresh = unnamed(0, State.LOST)
    before = replace(h200(0), processes=(work(7, "bob", "x", 1.0),))
    (found,) = remembering(seen(fresh), seen(before)).devices
    assert (found.state, found.since, found.reason) == (fresh.state, fresh.since, fresh.reason)
    assert (found.device.uuid, found.last_users) == (h200(0).device.uuid, ("bob",))


def test_a_device_that_answers_is_as_it_was_read() -> None:
    told = seen(silent(0, State.LOST, "gone", None, 60))
    assert remembering(seen(h200(0)), told).devices == (h200(0),)


def test_a_device_with_another_identity_is_not_taken_for_a_known_one() -> None:
    """Number 1 of the server is number 0 here: it answers, and is known by its UUID."""
    fresh = (unnamed(1), replace(h200(1), device=replace(h200(1).device, index=0)))
    assert remembering(seen(*fresh), seen(h200(1))).devices == fresh


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


# The request.


@pytest.fixture
def server() -> Iterator[Proving]:
    with proving() as made:
        yield made


@pytest.fixture
def state(server: Proving, state_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder of a user whose server is at the usual port, and wrote its address."""
    monkeypatch.setenv("ANDON_PORT", str(server.server_port))
    folder = made_node_state(state_folder)
    token = state_folder / "andon" / "token"
    token.touch(0o600)
    token.write_text(f"{TOKEN}\n")
    server_file.announce(folder, server.url, "127.0.0.1")
    return folder


def live(choices: Choices | None = None) -> LocalLive:
    found = node_of(choices or Choices()).live
    assert isinstance(found, LocalLive)
    return found


def say(server: Proving, snapshot: Snapshot, interval: str = "1") -> None:
    server.body = json.dumps(wire.snapshot_to_json(snapshot)).encode()
    server.more = ((INTERVAL_HEADER, interval),)


@pytest.mark.usefixtures("state")
def test_one_request_to_the_own_server_is_enough(server: Proving) -> None:
    say(server, seen(h200(0), at=time.time()), "30")
    found = live().latest()
    assert [one.device.uuid for one in found.devices] == [h200(0).device.uuid]
    assert server.asked == [("/api/snapshot", f"Bearer {TOKEN}")]


@pytest.mark.usefixtures("state")
def test_masks_are_those_of_this_process(server: Proving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    say(server, seen(h200(0), h200(1), at=time.time()), "30")
    found = live().latest()
    assert [(one.visible, one.cuda_index) for one in found.devices] == [(False, None), (True, 0)]


@pytest.mark.usefixtures("state")
def test_command_lines_that_the_server_withholds_come_from_proc(server: Proving) -> None:
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
    assert live(choices).told_now() is None


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    "other",
    [
        {"simulated": True},
        {"versions": {"replay": "x"}},
        {"node": "another"},
        {"boot": "another"},
    ],
)
def test_other_devices_than_this_machines_are_not_taken(
    server: Proving, other: dict[str, Any]
) -> None:
    say(server, seen(h200(0), at=time.time(), **other))
    assert live().told_now() is None
    assert server.asked


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("status", "body"), [(503, b"{}"), (200, b"<html>"), (200, b'{"schema": "x"}'), (200, b"\xff")]
)
def test_what_answers_otherwise_is_not_taken(server: Proving, status: int, body: bytes) -> None:
    server.status, server.body = status, body
    assert live().told_now() is None


@pytest.mark.usefixtures("state")
def test_who_does_not_prove_to_be_the_own_server_is_not_asked(
    server: Proving, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(server, seen(h200(0), at=time.time()))
    server.token = "u" * 43
    monkeypatch.setenv("ANDON_PORT", "1")  # nor is it the system's
    assert live().told_now() is None
    assert server.asked == []


def test_an_old_snapshot_is_said_to_be_old_and_not_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = ServerSnapshot(seen(h200(0), at=time.time() - 14), 1.0)
    assert live().recent(told) is None
    assert "the server's last reading is 14 s old" in capsys.readouterr().err
    assert live().recent(replace(told, interval_seconds=60.0)) == told.snapshot
    assert capsys.readouterr().err == ""


def test_an_old_snapshot_still_says_since_when_a_device_is_silent() -> None:
    before = replace(silent(0, State.LOST, "gone", None, 60), last_users=("alice",))

    class Played(LocalLive):
        def told_now(self, commands: bool = True) -> ServerSnapshot:
            return ServerSnapshot(seen(before, at=time.time() - 60), 1.0)

        def read(self, *_: object, **__: object) -> Snapshot:
            return seen(unnamed(0, State.LOST))

    assert Played(live(Choices(quiet=True))._here).latest().devices == (before,)
