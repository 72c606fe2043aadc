"""Who listens on an address: this user, a service, or another user who may pose as one."""

import os
import socket
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.host import port_listeners
from andon.host.port_listeners import (
    is_accepting,
    listeners,
    parse_listeners,
    trusted_listener,
)

PORT = 0x66FE
ZEROS, MAPPED, ONE = "0" * 32, "0000000000000000FFFF0000", "00000000000000000000000001000000"


def row(local: str, uid: int, state: str = "0A", remote: str = "00000000:0000") -> str:
    return f"   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 {uid} 0 20 1 0"


HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid timeout"
TABLE = [
    row("0100007F:66FE", 1001),
    row("0100007F:66FE", 1003, "03", "0100007F:D0C2"),
    row("00000000:0016", 0),
    row("0100007F:66FE", 1002, "01", "0100007F:D0C2"),
]

little = pytest.mark.skipif(sys.byteorder == "big", reason="tables as a little-endian kernel's")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proc/net").mkdir(parents=True)
    return tmp_path


def write(root: Path, *rows: str) -> None:
    """Each row into the table of its family."""
    for name, length in (("tcp", 13), ("tcp6", 37)):
        own = [one for one in rows if len(one.split()[1]) == length]
        (root / "proc/net" / name).write_text("\n".join([HEAD, *own]))


@little
def test_only_those_who_listen_count(root: Path) -> None:
    write(root, *TABLE)
    assert listeners("127.0.0.1", PORT, root) == {1001}
    assert listeners("127.0.0.1", 22, root) == {0}
    assert listeners("127.0.0.1", 23, root) == set()


@little
def test_another_address_of_the_same_port_is_another_listener(root: Path) -> None:
    write(root, row("0100007F:66FE", 0), row("0900007F:66FE", 65534))
    assert listeners("127.0.0.1", PORT, root) == {0}
    assert listeners("127.0.0.9", PORT, root) == {65534}
    assert listeners("127.0.0.8", PORT, root) == set()
    assert listeners("::1", PORT, root) == set()


@little
@pytest.mark.parametrize(
    ("rows", "address", "uid"),
    [
        ([row("00000000:66FE", 0), row(f"{ZEROS}:66FE", 7)], "127.0.0.1", 0),
        ([row("00000000:66FE", 0), row(f"{ZEROS}:66FE", 7)], "::1", 7),
        ([row("00000000:66FE", 0), row("0100007F:66FE", 5)], "127.0.0.1", 5),
        ([row(f"{ZEROS}:66FE", 7)], "127.0.0.1", 7),
        ([row(f"{MAPPED}0100007F:66FE", 8), row(f"{ZEROS}:66FE", 7)], "127.0.0.1", 8),
        ([row(f"{ONE}:66FE", 9), row(f"{ZEROS}:66FE", 7)], "::1", 9),
        ([row("0100007F:66FE", 5)], "::ffff:127.0.0.1", 5),
    ],
)
def test_the_most_specific_address_accepts(
    root: Path, rows: list[str], address: str, uid: int
) -> None:
    write(root, *rows)
    assert listeners(address, PORT, root) == {uid}


@given(st.lists(st.text()), st.integers(0, 65535))
def test_no_text_breaks_it(lines: list[str], port: int) -> None:
    assert parse_listeners(lines, ("0100007F",), port) == set()


@given(st.text())
def test_what_is_no_address_has_no_listeners(address: str) -> None:
    assert isinstance(listeners(address, 1, Path("/nowhere")), frozenset)


@little
def test_connections_however_many_are_not_read(root: Path) -> None:
    """Any user can leave a hundred thousand of them behind: only what stands before them counts."""
    rest = [row("0100007F:66FE", 0, "06", "0100007F:D0C2"), row("0100007F:66FE", 7)]
    write(root, *TABLE, *rest)
    assert listeners("127.0.0.1", PORT, root) == {1001}


@little
@pytest.mark.parametrize(
    ("uid", "trusted"), [(1001, True), (1002, False), (0, False)], ids=["own", "other", "root"]
)
def test_a_port_of_another_person_is_not_trusted(root: Path, uid: int, trusted: bool) -> None:
    write(root, *TABLE)
    assert trusted_listener("127.0.0.1", PORT, uid, root) == trusted
    assert trusted_listener("127.0.0.1", 22, uid, root), "root's"
    assert not trusted_listener("127.0.0.1", 23, uid, root), "no one's"


@pytest.mark.parametrize(
    ("family", "bound", "asked"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET, "0.0.0.0", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "::", "127.0.0.1"),
    ],
)
def test_this_machines_own_table_is_read(family: int, bound: str, asked: str) -> None:
    with socket.socket(family) as listening:
        if bound == "::":
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind((bound, 0))
        port = listening.getsockname()[1]
        assert listeners(asked, port) == set()
        listening.listen()
        assert listeners(asked, port) == {os.geteuid()}
        assert trusted_listener(asked, port, os.geteuid())


@pytest.mark.parametrize(("family", "address"), [("AF_INET", "127.0.0.1"), ("AF_INET6", "::")])
def test_who_listens_accepts_and_who_has_only_bound_a_port_does_not(
    family: str, address: str
) -> None:
    with socket.socket(getattr(socket, family)) as listening:
        listening.bind((address, 0))
        port = listening.getsockname()[1]
        assert not is_accepting(port)
        listening.listen()
        assert is_accepting(port)
    assert not is_accepting(port)


def test_a_listener_that_is_too_busy_to_accept_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_listeners, "ACCEPT_SECONDS", 0.001)
    with socket.socket() as listening, socket.socket() as first, socket.socket() as second:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        assert is_accepting(listening.getsockname()[1])
