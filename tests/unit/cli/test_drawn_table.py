"""A table drawn by this machine's server: from whom it is taken, and what is said to whom asks."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from andon.access.look import (
    SCHEMA,
    Asked,
    asked_by,
    asking_name,
    drawn_answer,
    look_name,
    read_drawn,
)
from andon.cli import drawn_table, entry
from andon.cli.drawn_table import print_drawn
from andon.cli.status_table import drawn_here
from andon.host import port_listeners, socket_peers
from andon.host.machine_id import node_key, node_name
from andon.host.socket_peers import code_stamp, connect, surroundings
from andon.leases.book import places
from andon.model.device import Snapshot
from andon.model.lamp import DeviceLamp, Lamp
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.sampling.rules.told import ServerSnapshot
from andon.settings import table
from andon.settings.resolution import Settings
from andon.web.transport.local_sockets import Draw, LookSocket
from tests.support.homes import made_node_state
from tests.support.rows import rows
from tests.support.snapshots import h200

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sockets without a file")

HEX = "0123456789abcdef" * 2
PORT = 20_000 + 2 * os.getpid() % 40_000  # only in names: other runs have others
TABLE = "one device – idle\n"


class Feed:
    """The latest snapshot of a server, and its settings."""

    settings = Settings()

    def latest(self) -> Snapshot:
        return Snapshot(node_name(), 1_800_000_000.0, devices=(h200(0, 10),))


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user without settings, whose usual port is that of the test."""
    for name in tuple(os.environ):
        if name.startswith("ANDON_"):
            monkeypatch.delenv(name)
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANDON_PORT", str(PORT))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@contextmanager
def drawing(draw: Draw | None, port: int = PORT) -> Iterator[str]:
    feed, uid = Feed(), os.getuid()
    made = LookSocket(port, uid, feed, draw=draw, pause_seconds=0.0)  # type: ignore[arg-type]
    with closing(made):
        yield made.name


@contextmanager
def saying(said: bytes, port: int = PORT) -> Iterator[None]:
    """A listener that sends this to the first who connects."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"\0{look_name(port, HEX)}")
        door.listen()

        def serve() -> None:
            caller, _ = door.accept()
            with caller, suppress(OSError):  # it may have gone
                caller.sendall(said)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join()


def here(text: str = TABLE, masks: tuple[str, ...] = ()) -> bytes:
    return drawn_answer(surroundings(code_stamp()), masks, 3, text)


def received(name: str, own_name: str = "") -> bytes:
    with closing(connect(name, 20, own_name)) as caller:
        found = b""
        while piece := caller.recv(1 << 16):
            found += piece
        return found


def test_the_server_is_asked_for_this_screen_and_its_text_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def draw(request: Asked, told: ServerSnapshot) -> tuple[int, str]:
        asked.append((request, told.snapshot.devices[0].device.index))
        return 3, TABLE

    monkeypatch.setenv("COLUMNS", "77")
    with drawing(draw):
        assert print_drawn(bare=True) == 3
    assert capsys.readouterr().out == TABLE
    assert asked == [((77, False, False, True), 0)]


def test_without_a_server_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_drawn(bare=True) is None
    assert capsys.readouterr().out == ""


def test_the_users_own_server_comes_before_that_of_the_usual_port(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made_node_state(tmp_path / "state")
    (folder / "server.json").write_text(f'{{"url": "http://127.0.0.1:{PORT + 1}", "pid": 1}}')
    with saying(here("own\n"), PORT + 1), drawing(lambda asked, told: (0, TABLE)):
        assert print_drawn(bare=False) == 3
        folder.chmod(0o777)
        assert print_drawn(bare=False) is None, "anyone may have written the file"
        (folder / "server.json").unlink()
        assert print_drawn(bare=False) == 0
    assert capsys.readouterr().out == "own\n" + TABLE


@pytest.mark.parametrize("has_id", [True, False])
def test_the_folder_of_this_machine_is_that_of_every_command(has_id: bool, tmp_path: Path) -> None:
    if has_id:
        (tmp_path / "etc").mkdir()
        (tmp_path / "etc/machine-id").write_text(f"{HEX}\n")
    found = drawn_table._node_key(f"{tmp_path}/")
    assert found == node_key(tmp_path)
    assert (found == HEX[:12]) == has_id


@pytest.mark.parametrize(
    "said",
    [
        b"", b"\xff\0", b"\0\0\0\0\0", b'{"schema":"andon.look/1"}', here()[:-1], here() + b"\0",
        here()[: len(here()) // 2], here(masks=("PATH",)), here().replace(b"\x003\0", b"\0x\0"),
        here().replace(node_name().encode() + b"\n", b"elsewhere\n"),
        here().replace(code_stamp().encode(), b"0.0.1 []"),
    ],
)  # fmt: skip
def test_any_other_answer_leads_to_the_ordinary_way(
    said: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with saying(said):
        assert print_drawn(bare=True) is None
    assert capsys.readouterr().out == ""


def test_what_it_knows_without_an_import_is_what_the_others_know() -> None:
    assert (str(places.SYSTEM_BOOK), str(places.COMMON_BOOK)) == socket_peers._BOOKS
    assert (table.PORT_VARIABLE, places.VARIABLE) == drawn_table.COMPARED
    assert table.USUAL_PORT == drawn_table.USUAL_PORT
    assert port_listeners.SYSTEM_UIDS == drawn_table.SYSTEM_UIDS


def test_one_that_says_nothing_is_left_in_time() -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"\0{look_name(PORT, HEX)}")
        door.listen()
        assert print_drawn(bare=True, timeout_seconds=0.05) is None


@rows(
    "name, asked",
    [
        (b"\0andon.drawn/1/80/010/ab", (80, False, True, False)),
        (f"\0{asking_name(120, True, False, True, HEX)}".encode(), (120, True, False, True)),
        (b"", None), (None, None), ("/tmp/a", None), (b"\0andon.drawn/1/", None),
        (b"\0andon.drawn/1/80", None), (b"\0andon.drawn/1/-1/000/a", None),
        (b"\0andon.drawn/1/99999/000/a", None), (b"\0andon.drawn/1/80/002/a", None),
        (b"\0andon.drawn/1/80/0000/a", None), (b"\0andon.drawn/1/\xff/000/a", None),
        (b"\0andon.drawn/2/80/000/a", None), (b"\0andon.drawn/1/\xb2/000/a", None),
    ],
)  # fmt: skip
def test_what_a_client_asks_for_by_its_name(name: object, asked: Asked | None) -> None:
    assert asked_by(name) == asked


def test_a_client_without_such_a_name_gets_the_readings() -> None:
    with drawing(lambda asked, told: (0, TABLE)) as name:
        for own_name in ("", "another", f"{HEX}/80/000"):
            assert msgspec.json.decode(received(name, own_name))["schema"] == SCHEMA
        assert read_drawn(
            received(name, asking_name(80, False, False, False, HEX)),
            surroundings(code_stamp()),
            os.environ,
        ) == (0, TABLE)


def test_a_server_that_cannot_draw_sends_nothing_and_answers_the_next() -> None:
    def draw(asked: Asked, told: ServerSnapshot) -> tuple[int, str] | None:
        if asked[0] == 80:
            raise ValueError("80")
        return None if asked[0] == 81 else (0, TABLE)

    with drawing(None) as name:
        assert received(name, asking_name(80, False, False, False, HEX)) == b""
    with drawing(draw) as name:
        for width in (80, 81):
            assert received(name, asking_name(width, False, False, False, HEX)) == b""
        assert TABLE.encode() in received(name, asking_name(82, False, False, False, HEX))


@pytest.mark.slow
def test_hundreds_who_ask_and_do_not_read_keep_nobody_waiting() -> None:
    with drawing(lambda asked, told: (0, TABLE)) as name, ExitStack() as stack:
        for number in range(300):
            own_name = asking_name(80, False, False, False, f"{number:032x}")
            stack.enter_context(closing(connect(name, 20, own_name)))
        assert TABLE.encode() in received(name, asking_name(80, False, False, False, HEX))


DEVICE = h200(0, 10)
NOW = time.time() + 3600.0  # a server whose clock is ahead: it does not grow old meanwhile
TOLD = ServerSnapshot(
    Snapshot(node_name(), NOW, devices=(DEVICE,)),
    1.0,
    (DeviceLamp(DEVICE.device.uuid, 0, Lamp.GREEN, "idle"),),
    (DeviceVerdict(DEVICE.device.uuid, 0, "0", VerdictKind.FREE),),
    NOW,
)
ASKED = (80, False, False, False)


@pytest.mark.usefixtures("book_folder")
def test_a_server_draws_what_it_knows_and_only_that(tmp_path: Path) -> None:
    code, text = drawn_here(ASKED, TOLD) or (1, "")
    assert code == 0
    assert text.endswith("free: GPU 0\n")
    snapshot = TOLD.snapshot
    others = (
        replace(TOLD, lamps=None), replace(TOLD, verdicts=None),
        replace(TOLD, snapshot=replace(snapshot, at=NOW - 3700.0)),
        replace(TOLD, snapshot=replace(snapshot, simulated=True)),
        replace(TOLD, snapshot=replace(snapshot, node="elsewhere")),
        replace(TOLD, snapshot=replace(snapshot, versions={"replay": "day.jsonl"})),
    )  # fmt: skip
    assert [drawn_here(ASKED, told) for told in others] == [None] * len(others)
    for width in (0, 19, 160, 9999):
        assert drawn_here((width, False, False, False), TOLD) is None
    (tmp_path / "book" / "leases").mkdir(parents=True)
    os.utime(tmp_path / "book" / "leases", (NOW + 0.5, NOW + 0.5))
    assert drawn_here(ASKED, TOLD) is None


@pytest.mark.process
def test_ctrl_c_ends_it_as_any_command() -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"\0{look_name(PORT, HEX)}")
        door.listen()
        with subprocess.Popen([sys.executable, "-m", "andon.cli"]) as process:
            caller, _ = door.accept()  # it waits for the table
            process.send_signal(signal.SIGINT)
            with caller:
                assert process.wait(60) == entry.INTERRUPTED
