"""REST at a local socket, as text: which frames and answers are read, and who is believed."""

import pytest

from andon.access.local_rest import (
    MOST_FRAME_BYTES,
    MOST_NAMES,
    RestAnswer,
    answer,
    frame,
    is_answered,
    is_over,
    is_trusted,
    parts_of,
    paths_in,
    socket_name,
    socket_names,
)
from tests.support.rows import rows

HEX = "0123456789abcdef" * 2
LONG = "/api/alerts?device=" + "x" * MOST_FRAME_BYTES


@rows(
    "listener, own, trusted",
    [
        (1000, 1000, True), (0, 1000, True), (999, 1000, True), (1001, 1000, False),
        (None, 1000, False), (None, 0, False), (1000, 0, False),
    ],
)  # fmt: skip
def test_who_is_believed(listener: int | None, own: int, trusted: bool) -> None:
    assert is_trusted(listener, own, 1000) is trusted


def test_only_names_of_the_port_are_tried_and_few_of_them() -> None:
    line = "0000: 00000002 00000000 00010000 0001 01 20614 @"
    table = "\n".join(
        f"{line}{socket_name(port, HEX)}" for port in (1, 11, 1, 2, 1, 1, 1, 1)
    ).encode()
    assert list(socket_names(table, 1)) == [socket_name(1, HEX)] * MOST_NAMES
    assert list(socket_names(table, 11)) == [socket_name(11, HEX)]
    assert list(socket_names(table, 3)) == []


def test_a_connection_to_a_socket_is_not_taken_for_one_that_listens() -> None:
    connected = f"0000: 00000003 00000000 00000000 0001 03 20615 @{socket_name(1, HEX)}"
    listening = f"0000: 00000002 00000000 00010000 0001 01 20614 @{socket_name(1, HEX)}"
    table = "\n".join([connected] * 9 + [listening, connected]).encode()
    assert list(socket_names(table, 1)) == [socket_name(1, HEX)]


@rows(
    "path, answered",
    [
        ("/api/snapshot", True),
        ("/api/snapshots", True),
        ("/api/alerts?limit=1000&since=1.5", True),
        ("/api/alerts/rules", True),
        ("/api/alerts/rules/thermal", True),
        ("/api/alerts/thermal@GPU-0#1", False),
        ("/api/alerts/thermal%40GPU-0%231", True),
        ("/api/leases", True),
        ("/api/devices/0/history?metric=power_watts", True),
        ("/api/devices/0/cordon", False),
        ("/api/proof?nonce=00", False),
        ("/api/session", False),
        ("/api/sessions", False),
        ("/api/links", False),
        ("/api/tokens", False),
        ("/api/qr", False),
        ("/api/jobs", False),
        ("/api/runs/x/record", False),
        ("/api/users", False),
        ("/api/nodes/n1/snapshot", False),
        ("/api/snapshot/", False),
        ("/api/snapshot#x", False),
        ("/api/alerts/../proof", False),
        ("/api/devices/0/../../proof", False),
        ("//api/snapshot", False),
        ("http://elsewhere/api/snapshot", False),
        ("/metrics", False),
        ("/healthz", False),
        ("/socket.io/", False),
        ("/", False),
        ("", False),
    ],
)
def test_what_only_reads_and_is_nobodys_secret_is_answered(path: str, answered: bool) -> None:
    assert is_answered(path) is answered


@pytest.mark.parametrize(
    "paths", [("/api/snapshot",), ("/api/snapshot", "/api/leases", "/api/alerts?limit=1000")]
)
def test_a_frame_is_read_as_it_was_written(paths: tuple[str, ...]) -> None:
    sent = frame(paths)
    assert paths_in(sent) == paths
    assert is_over(sent)
    assert not is_over(sent[:-1]), "a part of it is waited for"
    assert all(paths_in(sent[:length]) is None for length in range(len(sent)))


@rows(
    "received",
    [
        b"", b"\n", b"\n\n", b"andon.rest/1\n\n", b"andon.rest/2\n/api/snapshot\n\n",
        b"andon.rest/1\n/api/snapshot\n\nmore", b"andon.rest/1\n/api/snapshot\n\n\n\n",
        b"andon.rest/1\n/api/snapshot\n", b"andon.rest/1 /api/snapshot\n\n",
        b"andon.rest/1\n/api/snapshot\r\n\r\n", b"andon.rest/1\n/api/alerts?a b\n\n",
        b"andon.rest/1\n/api/alerts?\x00\n\n", b"andon.rest/1\n/api/alerts?\xff\n\n",
        b"andon.rest/1\n/api/snapshot\n/api/proof\n\n", b"GET /api/snapshot HTTP/1.1\r\n\r\n",
        frame(["/api/snapshot"] * 9), frame([LONG]), b"x" * (1 << 20), b'{"paths":[]}\n\n',
    ],
)  # fmt: skip
def test_anything_else_is_no_frame(received: bytes) -> None:
    assert paths_in(received) is None


def test_what_is_too_long_is_not_read_to_its_end() -> None:
    assert is_over(b"x" * (MOST_FRAME_BYTES + 1))
    assert not is_over(b"x" * MOST_FRAME_BYTES)


PARTS = [RestAnswer(200, b'{"at":1}\n\n', "2.5"), RestAnswer(404, b""), RestAnswer(200, b"\xff")]


def test_an_answer_is_read_as_it_was_written() -> None:
    sent = answer(PARTS)
    assert parts_of(sent, 3) == PARTS
    assert parts_of(sent, 2) is None
    assert all(parts_of(sent[:length], 3) is None for length in range(len(sent)))
    assert parts_of(sent + b"x", 3) is None


@rows(
    "sent",
    [
        b"", b"\xff", b"andon.rest/1\n", b"andon.rest/2 200/2/\n{}", b"andon.rest/1 200/3/\n{}",
        b"andon.rest/1 200/-2/\n{}", b"andon.rest/1 999/2/\n{}", b"andon.rest/1 200/2/x\n{}",
        b"andon.rest/1 200/2\n{}", b"andon.rest/1 200/999999999999/\n{}",
        b'{"schema":"andon.look/1"}', b"HTTP/1.1 200 OK\r\n\r\n{}",
    ],
)  # fmt: skip
def test_an_answer_of_another_kind_is_none(sent: bytes) -> None:
    assert parts_of(sent, 1) is None
