"""Facts about owners, modes, listeners and odd files are gathered without believing a name."""

import fcntl
import json
import os
import socket
import time
from pathlib import Path

import pytest

from andon.doctor.inspection.books import OLD_SECONDS, read_contents
from andon.doctor.inspection.security import (
    file_access,
    parse_address,
    parse_listeners,
    read_above,
    read_security,
    read_server,
    read_state,
)
from andon.doctor.rules.facts import Contents, PortListener, StrayFiles, StrayReason
from andon.host.processes.kin import pid_scope
from andon.model import wire
from andon.model.codec import document
from andon.model.lease import Cordon, Lease, LeaseKind, Owner, Share
from tests.support.rows import rows

ME = os.getuid()
USERS = {ME: "keeper"}
LEASE = Lease(
    id="k7qm2",
    shares=(Share("GPU-1", 0, None),),
    owner=Owner(ME, "keeper", 4711, 1, 4711),
    kind=LeaseKind.COMMAND,
    since=1.0,
    since_ticks=1,
)
TEXT = wire.dumps(document(LEASE)) + "\n"
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"


def line(address: str, port: int, state: str = "0A", uid: int = 1002) -> str:
    return f"   0: {address}:{port:04X} 00000000:0000 {state} 00000000:00000000 00:0 0 {uid} 0 1\n"


@pytest.fixture
def book(tmp_path: Path) -> Path:
    for part in ("leases", "tickets", "cordons"):
        (tmp_path / "book" / part).mkdir(parents=True)
    return tmp_path / "book"


def later() -> float:
    return time.time() + OLD_SECONDS + 60


# Books.


def test_an_ordinary_book_holds_nothing_odd(book: Path) -> None:
    (book / "leases" / "k7qm2-1.lease").write_text(TEXT)
    cordon = Cordon("GPU-1", 1.0, "root", "new fan")
    (book / "cordons" / "cGPU-1").write_text(wire.dumps(document(cordon)))
    assert read_contents(book, USERS) == Contents(counts=(("keeper", ME, 2),))


def test_a_file_that_no_process_holds_is_a_leftover_after_a_while(book: Path) -> None:
    path = book / "leases" / "k7qm2-1.lease"
    path.write_text(TEXT)
    (book / "tickets" / ".draft").write_text("")
    assert read_contents(book, USERS, later).strays == (
        StrayFiles(StrayReason.UNLOCKED, "keeper", ME, 2),
    )
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert read_contents(book, USERS, later).strays == (
            StrayFiles(StrayReason.UNLOCKED, "keeper", ME, 1),
        )


def test_what_is_no_file_is_told_and_not_waited_for(book: Path) -> None:
    leases = book / "leases"
    os.mkfifo(leases / "pipe.lease")
    (leases / "link.lease").symlink_to("/etc/passwd")
    (leases / "folder.lease").mkdir()
    assert read_contents(book, USERS).strays == (
        StrayFiles(StrayReason.NOT_A_FILE, "keeper", ME, 3),
    )


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"[]", b"{}", b"null", b"[" * 50_000, TEXT.encode()[:40],
     b"{" + b" " * 70_000],
)  # fmt: skip
def test_what_is_no_entry_is_told(book: Path, content: bytes) -> None:
    (book / "leases" / "x.lease").write_bytes(content)
    assert read_contents(book, USERS).strays == (
        StrayFiles(StrayReason.MALFORMED, "keeper", ME, 1),
    )


def test_a_lease_among_the_tickets_is_no_ticket(book: Path) -> None:
    (book / "tickets" / "k7qm2-1.lease").write_text(TEXT)
    assert read_contents(book, USERS).strays == (
        StrayFiles(StrayReason.MALFORMED, "keeper", ME, 1),
    )


def test_a_flood_is_counted_up_to_a_bound(book: Path) -> None:
    for number in range(8):
        (book / "leases" / f"{number}.lease").write_text("{}")
    found = read_contents(book, USERS, most_files=5, most_bytes=3)
    assert not found.complete
    assert found.counts == (("keeper", ME, 5),)
    assert sum(stray.count for stray in found.strays) == 1, "the others were not read any more"


def test_a_book_without_parts_and_one_that_is_no_folder_are_empty(tmp_path: Path) -> None:
    assert read_contents(tmp_path, USERS) == Contents()
    assert read_contents(tmp_path / "none", USERS) == Contents()


# The state folder.


def test_owners_and_modes_are_as_the_file_system_says(tmp_path: Path) -> None:
    folder = tmp_path / "andon"
    folder.mkdir(mode=0o700)
    (folder / "token").write_text("secret")
    (folder / "token").chmod(0o640)
    node = folder / "nodes/0123"
    node.mkdir(mode=0o750, parents=True)
    (node / "history.db").symlink_to("/etc/passwd")
    os.mkfifo(node / "audit.jsonl")
    stored = {"history": node / "history.db", "history's log": node / "history.db-wal"}
    found = {kept.name: kept for kept in read_state(folder, USERS, "nodes/0123", stored)}
    assert (found["machine's folder"].mode, found["machine's folder"].kind) == (0o750, "folder")
    assert (found["folder"].mode, found["folder"].kind) == (0o700, "folder")
    assert (found["token"].mode, found["token"].owner) == (0o640, "keeper")
    assert found["history"].kind == "link"
    assert "history's log" not in found
    assert found["audit log"].kind == "other"
    assert read_state(tmp_path / "none", USERS) == ()


def test_the_folders_above_are_told_up_to_the_top(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    paths = [kept.path for kept in read_above(tmp_path / "link" / "andon", USERS)]
    assert paths[0] == str((tmp_path / "real").resolve())
    assert paths[-1] == "/"


def test_a_file_that_is_not_there_is_nothing(tmp_path: Path) -> None:
    assert file_access("token", tmp_path / "none", USERS) is None
    assert file_access("token", tmp_path / "a\0b", USERS) is None


# The server and its port.


@rows(
    "content",
    [b"", b"{", b"[]", b'{"url": 5, "pid": 1}', b'{"url": "http://h:1", "pid": true}',
     b'{"url": "http://h:1", "pid": -1}', b'{"url": "http://h:1", "pid": 1e3}',
     b'{"url": "http://h:1", "pid": 4611686018427387904}', b"[" * 4096],
)  # fmt: skip
def test_a_strange_server_json_says_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "server.json").write_bytes(content)
    assert read_server(tmp_path, tmp_path) is None


@pytest.mark.parametrize(
    ("uid", "more", "lives"),
    [
        (0, {}, True),
        (1, {}, False),
        (0, {"started_ticks": 4711}, True),
        (0, {"started_ticks": 4712}, False),
        (0, {"boot": pid_scope().boot, "pid_namespace": pid_scope().pid_namespace}, True),
        (0, {"boot": "another"}, False),
        (1, {"pid_namespace": "another"}, True),  # it cannot be seen from here
    ],
)
def test_a_server_is_believed_if_its_process_is_ours_and_that_one(
    tmp_path: Path, uid: int, more: dict[str, object], lives: bool
) -> None:
    said = {"url": "https://127.0.0.1:4000", "pid": 77, **more}
    (tmp_path / "server.json").write_text(json.dumps(said))
    folder = tmp_path / "proc/77"
    folder.mkdir(parents=True)
    (folder / "status").write_text(f"Name:\tx\nUid:\t{os.geteuid() + uid}\t0\t0\t0\n")
    (folder / "stat").write_text(f"77 (a) b) S {'0 ' * 18}4711 0 0\n")
    found = read_server(tmp_path, tmp_path)
    assert found is not None
    assert (found.port, found.tls, found.lives) == (4000, True, lives)


@pytest.mark.parametrize("url", ["http://h", "http://h:", "http://h:x", "http://h:0", "x:99999"])
def test_a_server_without_a_port_is_none(tmp_path: Path, url: str) -> None:
    (tmp_path / "server.json").write_text(json.dumps({"url": url, "pid": 1}))
    assert read_server(tmp_path, tmp_path) is None


def test_listeners_are_told_by_address_and_owner() -> None:
    text = HEAD + line("0100007F", 26366) + line("00000000", 26366, uid=7)
    text += line("0100007F", 26367) + line("0100007F", 26366, state="01") + "rubbish\n"
    assert parse_listeners(text, 26366, {1002: "mallory"}) == [
        PortListener("127.0.0.1", 26366, "mallory", 1002, loopback=True),
        PortListener("0.0.0.0", 26366, "7", 7, loopback=False),
    ]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0100007F", "127.0.0.1"),
        ("00000000000000000000000001000000", "::1"),
        ("0000000000000000FFFF00000100007F", "::ffff:127.0.0.1"),
        ("xyz", None),
        ("00", None),
    ],
)
def test_an_address_is_read_as_the_kernel_prints_it(text: str, address: str | None) -> None:
    found = parse_address(text, little=True)
    assert (None if found is None else str(found)) in (address, "::ffff:7f00:1")
    assert (found is None) == (address is None)


def test_the_kernel_s_own_table_is_read() -> None:
    if not Path("/proc/net/tcp").exists():
        pytest.skip("this system has no /proc/net")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        text = Path("/proc/net/tcp").read_text()
        (found,) = parse_listeners(text, port, USERS)
    assert (found.address, found.uid, found.loopback) == ("127.0.0.1", os.geteuid(), True)


def test_an_empty_machine_gives_empty_facts(tmp_path: Path) -> None:
    found = read_security(tmp_path / "none", tmp_path / "none.toml", tmp_path)
    assert (found.state, found.config, found.server, found.listeners) == ((), None, None, ())
    assert found.protected_hardlinks is None


def test_the_kernel_s_settings_are_read(tmp_path: Path) -> None:
    for name, value in (("fs/protected_hardlinks", 0), ("kernel/kptr_restrict", 2)):
        path = tmp_path / "proc/sys" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
    found = read_security(None, None, tmp_path, "it is far away")
    assert (found.protected_hardlinks, found.kptr_restrict) == (False, 2)
    assert found.dmesg_restrict is None
    assert found.unseen == "it is far away"
