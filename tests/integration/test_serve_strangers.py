"""Strangers at the connection itself: nonsense, silence, and more of them than there are places."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import need
from tests.integration.parts import wait_until
from tests.integration.serving import READY_SECONDS, Served, serving

HANDSHAKE = (
    b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: localhost\r\n"
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
FEW_FILES = 300  # which leaves 44 places


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("home"), "--no-history", simulate=1) as served:
        yield served


def connect(served: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), READY_SECONDS)


def said(served: Served, sent: bytes) -> tuple[int, str, bytes]:
    """Status, kind and body of what comes back until the end."""
    with connect(served) as connection:
        connection.sendall(sent)
        with connection.makefile("rb") as file:
            head, _, body = file.read().partition(b"\r\n\r\n")
    kinds = [line for line in head.lower().splitlines() if line.startswith(b"content-type")]
    return int(head.split()[1]), kinds[0].decode(), body


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /api/session HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        HANDSHAKE.replace(b"Sec-WebSocket-Version: 13\r\n", b""),
        HANDSHAKE.replace(b"AAAA", b""),
        HANDSHAKE.replace(b"GET", b"POST"),
        b"GET /socket.io/?EIO=3&transport=polling HTTP/1.0\r\nHost: localhost\r\n\r\n",
        b"GET /socket.io/?EIO=4&transport=pigeon HTTP/1.0\r\nHost: localhost\r\n\r\n",
        b"GET /socket.io/?EIO=4&transport=polling&sid=x HTTP/1.0\r\nHost: localhost\r\n\r\n",
        b"PUT /socket.io/?EIO=4&transport=polling HTTP/1.0\r\nHost: localhost\r\n\r\n",
    ],
)
def test_every_error_has_one_shape_also_below_the_application(home: Served, sent: bytes) -> None:
    status, kind, body = said(home, sent)
    assert status in (400, 405)
    assert kind == "content-type: application/json"
    error = json.loads(body)["error"]
    assert error["kind"] == "invalid"
    assert error["reason"]
    assert error["hint"]


def test_silent_strangers_lose_their_places_to_whoever_asks(tmp_path: Path) -> None:
    need("prlimit")
    with ExitStack() as stack:
        few = ("prlimit", f"--nofile={FEW_FILES}:{FEW_FILES}")
        served = stack.enter_context(serving(tmp_path, "--no-history", simulate=1, wrapped=few))
        strangers = [stack.enter_context(connect(served)) for _ in range(80)]
        assert served.ask("/api/snapshot").status == 200
        assert strangers[0].recv(1) == b""
        assert served.process.poll() is None


def test_where_all_are_at_work_the_next_is_told_so_and_comes_in_later(tmp_path: Path) -> None:
    need("prlimit")
    with ExitStack() as stack:
        few = ("prlimit", f"--nofile={FEW_FILES}:{FEW_FILES}")
        served = stack.enter_context(serving(tmp_path, "--no-history", simulate=1, wrapped=few))
        with ExitStack() as viewers:
            for _ in range(FEW_FILES - 256):
                one = viewers.enter_context(connect(served))
                one.sendall(HANDSHAKE)
                assert one.recv(4096).startswith(b"HTTP/1.1 101")
            full = served.ask("/api/snapshot")
            assert full.status == 503
            assert full.json()["error"]["hint"]
            assert "retry-after" in {name.lower() for name in full.headers}
            status, _, body = said(served, HANDSHAKE)
            assert (status, json.loads(body)["error"]["kind"]) == (503, "unavailable")
        wait_until(lambda: served.ask("/api/snapshot").status == 200, "a free place")
