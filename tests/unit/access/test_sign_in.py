"""Signing in by the local socket: what each side believes of the other."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path

import pytest

from andon.access.roles import Role
from andon.access.sign_in import (
    LARGEST_BYTES,
    PREFIX,
    SignInAnswer,
    announced_ports,
    answer_doubt,
    dump_answer,
    is_socket_name,
    parse_answer,
    socket_doubt,
    socket_name,
)
from andon.host.socket_peers import connect, peer_uid
from andon.web.transport.keys import Keys
from andon.web.transport.local_sockets import SignInSocket, local_socket
from tests.support.rows import rows

URL = "http://127.0.0.1:26366"
GOOD = SignInAnswer(URL, 26366, "dora", "c" * 43)
HEX = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    "answer", [GOOD, SignInAnswer(URL, 1, "dora", reason="no account", hint="ask root")]
)
def test_an_answer_reads_as_it_was_written(answer: SignInAnswer) -> None:
    assert parse_answer(dump_answer(answer)) == answer


@rows(
    "content",
    [
        b"", b"{}", b"[]", b"null", b"[" * 9999, b"\xff", b'{"schema": "andon.sign-in/2"}',
        dump_answer(GOOD).replace(b'"port": 26366', b'"port": true'),
        dump_answer(GOOD).replace(b"http://127", b"javascript:127"),
        dump_answer(GOOD).replace(b"http://127", b"http://a@127"),
        dump_answer(GOOD).replace(b"26366\"", b"26366/x#y\""),
        dump_answer(GOOD).replace(b"ccc", b"c\\u001b[31m"),
        dump_answer(GOOD).replace(b"dora", b"\\u001b]0;x"),
        dump_answer(GOOD).replace(b'"dora"', b"5"),
        dump_answer(SignInAnswer(URL, 1, "dora")),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_refused(content: bytes) -> None:
    assert parse_answer(content) is None


@pytest.mark.parametrize(
    ("uid", "listeners", "trusted"),
    [
        (0, {0}, True),
        (1000, {1000}, True),
        (0, {1666}, False),  # another's port names root's socket
        (1666, {0}, False),  # another has taken the place of root's socket
        (0, {0, 1666}, False),
        (0, set(), False),
        (-1, {65534}, False),
    ],
)
def test_port_and_socket_belong_to_the_same_user(
    uid: int, listeners: set[int], trusted: bool
) -> None:
    assert (socket_doubt(uid, listeners) is None) is trusted


def test_a_relay_is_not_the_server() -> None:
    assert answer_doubt(GOOD, 26366) is None
    assert answer_doubt(GOOD, 8080) == f"it relays requests to the server at {URL}"


@rows(
    "name",
    ["", "/tmp/x", "andon-sign-in/1/x", f"{PREFIX}1/{HEX}x", f"x{PREFIX}1/{HEX}", None, 5,
     f"{PREFIX}1/{HEX}\n", f"\0{PREFIX}1/{HEX}", "../../x"],
)  # fmt: skip
def test_only_a_name_of_ours_is_connected_to(name: object) -> None:
    assert not is_socket_name(name)
    assert is_socket_name(socket_name(26366, HEX))


def test_servers_are_found_in_the_kernels_table() -> None:
    lines = [
        "Num       RefCount Protocol Flags    Type St Inode Path",
        f"0000: 00000002 00000000 00010000 0001 01 20612 @{PREFIX}26366/{HEX}",
        f"0000: 00000002 00000000 00010000 0001 01 20613 @{PREFIX}31020/{HEX}",
        f"0000: 00000002 00000000 00010000 0001 01 20614 @{PREFIX}99999/{HEX}",
        f"0000: 00000002 00000000 00010000 0001 01 20614 /tmp/@{PREFIX}5/{HEX}",
        "0000: 00000003 00000000 00000000 0001 03 20615",
    ]
    assert list(announced_ports("\n".join(lines))) == [26366, 31020]


@pytest.fixture
def door() -> Iterator[SignInSocket]:
    made = SignInSocket(Keys("t" * 43), URL, 26366, pause_seconds=0)
    yield made
    made.close()


def knock(name: str) -> SignInAnswer | None:
    with closing(connect(name, 20)) as caller:
        content = b""
        while part := caller.recv(LARGEST_BYTES):
            content += part
    return parse_answer(content)


def test_whoever_connects_gets_a_code_for_the_own_uid(door: SignInSocket) -> None:
    answer = knock(door.name)
    assert answer is not None
    who = door._keys.code_owner(answer.code)
    assert who is not None
    assert (who.uid, who.role, who.by_token) == (os.getuid(), Role.OWNER, False)
    assert (answer.url, answer.port) == (URL, 26366)
    again = knock(door.name)
    assert again is not None
    assert again.code != answer.code


def test_who_has_no_account_is_told_whom_to_ask() -> None:
    made = SignInSocket(Keys("t" * 43), URL, 26366, name_of=lambda uid: None)
    try:
        answer = knock(made.name)
    finally:
        made.close()
    assert answer is not None
    assert answer.code == ""
    assert answer.reason == f"uid {os.getuid()} has no account on this machine"
    assert answer.hint == f"ask {made._keys.owner.user}, who runs this server"


def test_an_account_that_cannot_be_looked_up_does_not_lock_the_others_out() -> None:
    names = iter(("broken", "ada"))

    def name_of(uid: int) -> str:
        name = next(names)
        if name == "broken":
            raise ValueError(name)
        return name

    made = SignInSocket(Keys("t" * 43), URL, 26366, name_of=name_of, pause_seconds=0)
    try:
        assert knock(made.name) is None
        answer = knock(made.name)
    finally:
        made.close()
    assert answer is not None
    assert (answer.user, bool(answer.code)) == (made._keys.owner.user, True)


@pytest.mark.slow
def test_hundreds_who_say_nothing_keep_nobody_waiting(door: SignInSocket) -> None:
    with ExitStack() as stack:
        for _ in range(600):
            stack.enter_context(closing(connect(door.name, 20)))
        assert knock(door.name) is not None
    assert len(door._keys._codes) <= 256


def test_garbage_and_those_who_leave_at_once_end_nothing(door: SignInSocket) -> None:
    for _ in range(20):
        with closing(connect(door.name, 20)) as caller, suppress(OSError):
            caller.send(b"GET / HTTP/1.1\r\n" * 500)
    assert knock(door.name) is not None


def test_a_name_cannot_be_taken_twice_and_ends_with_the_server(door: SignInSocket) -> None:
    with socket.socket(socket.AF_UNIX) as squatter, pytest.raises(OSError, match="in use"):
        squatter.bind(f"\0{door.name}")
    door.close()
    with pytest.raises(OSError, match="refused"):
        knock(door.name)
    assert not any(one.name == "andon sign-in" and one.is_alive() for one in threading.enumerate())


def test_a_uid_that_many_share_is_nobodys(tmp_path: Path) -> None:
    """Outside its user namespace the kernel shows every stranger as the same number."""
    (tmp_path / "overflowuid").write_text(f"{os.getuid()}\n")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_uid(ours) == os.getuid()
        assert peer_uid(ours, str(tmp_path / "overflowuid")) is None


def test_where_it_is_not_wanted_there_is_no_socket() -> None:
    made = partial(SignInSocket, Keys("t" * 43), URL, 1)
    with local_socket(made, "", wanted=False) as name:
        assert name is None
    with local_socket(made, "", wanted=True) as name:
        assert is_socket_name(name)
