"""A server's latest look, from its local socket: to whom it is given, and from whom it is taken."""

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from andon.access.look import MOST_NAMES, is_trusted, look_name, look_names
from andon.host import socket_peers
from andon.host.machine_id import boot_id, node_name
from andon.model.device import Process, Snapshot
from andon.model.lamp import Lamp
from andon.model.vendors import AMD
from andon.node import look
from andon.node.look import server_look
from andon.sampling.rules.told import ServerSnapshot
from andon.settings.resolution import Settings
from andon.web.transport.local_sockets import LookSocket
from tests.support.homes import made_node_state
from tests.support.replaced import answers
from tests.support.rows import rows
from tests.support.snapshots import h200

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sockets without a file")

CODE = socket_peers.code_stamp().encode()
HEX = "0123456789abcdef" * 2
PORT = 26_366
ROOT = Path("/")
SNAPSHOT = Snapshot(
    node_name(),
    1_800_000_000.0,
    boot=boot_id(),
    devices=(
        replace(
            h200(0, 10, utilization_percent=50),
            processes=(
                Process(11, user="ada", command="python mine.py", memory_bytes=1),
                Process(12, user="bob", command="python his.py", memory_bytes=1),
            ),
        ),
        h200(1, 0, ecc_uncorrected=2),
    ),
)


class Feed:
    """The latest snapshot of a server, and its settings."""

    settings = Settings(interval_seconds=2.5)

    def __init__(self) -> None:
        self.last = SNAPSHOT

    def latest(self) -> Snapshot:
        return self.last


class Watcher:
    def alerts(self) -> tuple[()]:
        return ()


@pytest.fixture(autouse=True)
def at_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server but that of the test, at the usual port."""
    monkeypatch.setenv("ANDON_PORT", str(PORT))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def served(feed: Feed, port: int = PORT, **more: Any) -> LookSocket:
    own: dict[str, Any] = {"server_uid": os.getuid(), "pause_seconds": 0.0, **more}
    return LookSocket(port, feed=feed, watcher=Watcher(), **own)  # type: ignore[arg-type]


def told() -> ServerSnapshot | None:
    return server_look(None, ROOT, commands=False)


@pytest.fixture
def feed() -> Iterator[Feed]:
    made = Feed()
    with closing(served(made)):
        yield made


def commands(found: ServerSnapshot | None) -> list[str | None]:
    assert found is not None
    return [process.command for process in found.snapshot.devices[0].processes]


@pytest.mark.usefixtures("feed")
def test_it_has_the_snapshot_its_interval_and_the_lamps() -> None:
    found = told()
    assert found is not None
    assert [s.device.uuid for s in found.snapshot.devices] == [
        s.device.uuid for s in SNAPSHOT.devices
    ]
    assert found.interval_seconds == 2.5
    assert [lamp.lamp for lamp in found.lamps or ()] == [Lamp.GREEN, Lamp.AMBER]
    assert found.verdicts is None, "this server follows no book"
    assert commands(found) == ["python mine.py", "python his.py"]


def test_a_user_sees_what_the_server_shows_to_users() -> None:
    with closing(served(Feed(), name_of={4242: "ada"}.get)) as made:
        shown = msgspec.json.decode(made._look(4242, b""))["snapshot"]["devices"][0]
    assert [one["command"] for one in shown["processes"]] == ["python mine.py", None]


def test_one_without_an_account_gets_nothing() -> None:
    with closing(served(Feed(), name_of=lambda uid: None)):
        assert told() is None


def test_a_listener_that_is_neither_this_users_nor_the_systems_is_not_believed(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, look, "peer_uid", 54_321)
    assert told() is None


@rows(
    "listener, own, trusted",
    [
        (1000, 1000, True), (0, 1000, True), (999, 1000, True), (1001, 1000, False),
        (None, 1000, False), (None, 0, False), (1000, 0, False),
    ],
)  # fmt: skip
def test_who_is_believed(listener: int | None, own: int, trusted: bool) -> None:
    assert is_trusted(listener, own, 1000) is trusted


def test_a_server_of_another_machine_or_boot_is_passed_over(feed: Feed) -> None:
    for other in (
        replace(SNAPSHOT, node="elsewhere"),
        replace(SNAPSHOT, boot="another"),
        replace(SNAPSHOT, node="elsewhere", simulated=True),
        replace(SNAPSHOT, simulated=True, versions={"replay": "day.jsonl"}),
    ):
        feed.last = other
        assert told() is None


def test_simulated_devices_are_taken_where_the_machine_has_none(feed: Feed, tmp_path: Path) -> None:
    feed.last = replace(SNAPSHOT, simulated=True)
    assert server_look(None, tmp_path, commands=False) is not None
    (tmp_path / "sys/bus/pci/drivers" / AMD.drivers[0] / "0000:19:00.0").mkdir(parents=True)
    assert server_look(None, tmp_path, commands=False) is None


def test_one_at_another_port_is_not_asked_unless_it_is_this_users_own(state_folder: Path) -> None:
    with closing(served(Feed(), port=PORT + 1)):
        assert told() is None
        folder = made_node_state(state_folder)
        (folder / "server.json").write_bytes(
            msgspec.json.encode({"url": f"http://127.0.0.1:{PORT + 1}", "pid": 1})
        )
        assert told() is not None


@pytest.mark.parametrize(
    "said",
    [
        b"", b"\xff", b"[]", b"{}", b'{"schema":"andon.look/2"}', b"[" * 5000,
        b'{"schema":"andon.look/1","interval_seconds":1,"snapshot":{}}',
        b'{"schema":"andon.look/1","interval_seconds":"x","snapshot":{"node":1}}',
        b'{"schema":"andon.look/1","interval_seconds":1,"code":"%b","snapshot":{}}' % CODE,
        b'{"schema":"andon.look/1","interval_seconds":1,"code":"%b","snapshot":'
        b'{"schema":"andon.snapshot/1","host":[],"devices":{"state":1}}}' % CODE,
        b'{"schema":"andon.look/1","interval_seconds":1,"code":"%b","snapshot":[]}' % CODE,
    ],
)  # fmt: skip
def test_an_answer_of_another_kind_is_none(said: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"\0{look_name(PORT, HEX)}")
        door.listen()

        def serve() -> None:
            caller, _ = door.accept()
            with caller:
                caller.sendall(said)

        thread = threading.Thread(target=serve)
        thread.start()
        assert told() is None
        thread.join()


@pytest.mark.parametrize("code", ["", "0.0.1"])
def test_one_of_another_installation_is_read_with_care(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an upgrade beneath the server, which keeps the mark of its start."""
    with closing(served(Feed())) as made:
        same = told()
        made._code = code
        monkeypatch.delattr("andon.model.wire_in.own_snapshot_from_json")
        assert told() == same is not None


def test_one_that_says_nothing_is_left_in_time() -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"\0{look_name(PORT, HEX)}")
        door.listen()
        assert server_look(None, ROOT, commands=False, timeout_seconds=0.05) is None


def test_only_names_of_the_port_are_tried_and_few_of_them() -> None:
    line = "0000: 00000002 00000000 00010000 0001 01 20614 @"
    table = "\n".join(
        f"{line}{look_name(port, HEX)}" for port in (1, 11, 1, 2, 1, 1, 1, 1)
    ).encode()
    assert list(look_names(table, 1)) == [look_name(1, HEX)] * MOST_NAMES
    assert list(look_names(table, 11)) == [look_name(11, HEX)]
    assert list(look_names(table, 3)) == []
