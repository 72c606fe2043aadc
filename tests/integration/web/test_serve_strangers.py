"""Strangers at the connection itself: nonsense, silence, and more of them than there are places."""

import json
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from andon.access.quotas import quotas_for
from andon.drivers.sim.rules import behaviour
from andon.history.rules import seeding
from andon.history.rules.tiers import Retention
from andon.stores.sqlite import SqliteStore
from tests.conftest import need
from tests.integration.parts import wait_until
from tests.integration.serving import READY_SECONDS, Answer, Served, make_certificate, serving

POLLING = "/socket.io/?EIO=4&transport=polling"

HANDSHAKE = (
    b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: localhost\r\n"
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
FEW_FILES = 300
QUOTAS = quotas_for(FEW_FILES)


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


@pytest.fixture
def few(tmp_path: Path) -> Iterator[Served]:
    """A server that may open few files."""
    need("prlimit")
    limit = ("prlimit", f"--nofile={FEW_FILES}:{FEW_FILES}")
    with serving(tmp_path, "--no-history", simulate=1, wrapped=limit) as served:
        yield served


def test_silent_strangers_lose_their_places_to_whoever_asks(few: Served) -> None:
    with ExitStack() as stack:
        strangers = [stack.enter_context(connect(few)) for _ in range(2 * QUOTAS.most)]
        assert few.ask("/api/snapshot").status == 200
        assert strangers[0].recv(1) == b""
        assert few.process.poll() is None


def test_silent_strangers_before_a_handshake_are_counted_too(tmp_path: Path) -> None:
    """They come before the protocol exists; history, log and the token must not notice them."""
    need("prlimit")
    certificate, key = make_certificate(tmp_path)
    options = ("--tls-cert", str(certificate), "--tls-key", str(key))
    limit = ("prlimit", f"--nofile={FEW_FILES}:{FEW_FILES}")
    log, history = tmp_path / "log", tmp_path / "history.db"
    with ExitStack() as stack:
        errors = stack.enter_context(log.open("wb"))
        served = stack.enter_context(
            serving(tmp_path, *options, simulate=1, wrapped=limit, errors=errors,
                    ANDON_HISTORY=str(history))
        )  # fmt: skip
        for _ in range(2 * FEW_FILES):
            stack.enter_context(connect(served))
        before = _asked_by_tls(served, certificate, "/api/health")["store"]["written_snapshots"]
        open_files = len(list(Path(f"/proc/{served.process.pid}/fd").iterdir()))
        assert QUOTAS.most < open_files < FEW_FILES - 50  # `prlimit` becomes what it starts

        def written() -> bool:
            health = _asked_by_tls(served, certificate, "/api/health")
            assert health["store"]["state"] == "ok"
            return bool(health["store"]["written_snapshots"] > before)

        wait_until(written, "history to go on")
    assert log.stat().st_size < 10_000, log.read_text()[:2000]


def _asked_by_tls(served: Served, certificate: Path, path: str) -> Any:
    context = ssl.create_default_context(cafile=str(certificate))
    connection = HTTPSConnection("127.0.0.1", served.port, timeout=READY_SECONDS, context=context)
    try:
        connection.request("GET", path, headers=served.bearer)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def test_requests_that_wait_leave_room_for_the_token_and_for_plain_requests(few: Served) -> None:
    with ExitStack() as stack:
        opened = json.loads(few.ask(POLLING).body[1:])
        few.ask(f"{POLLING}&sid={opened['sid']}")  # what it has to say at once
        request = f"GET {POLLING}&sid={opened['sid']} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for _ in range(QUOTAS.most + 50):
            stack.enter_context(connect(few)).sendall(request.encode())
        for _ in range(5):
            assert few.ask("/healthz").status == 200
            assert few.ask("/api/snapshot", **few.bearer).status == 200
            assert few.ask("/api/snapshot").status == 200


def test_where_all_are_at_work_the_next_is_told_so_and_comes_in_later(few: Served) -> None:
    with ExitStack() as viewers:
        for _ in range(QUOTAS.most):
            one = viewers.enter_context(connect(few))
            one.sendall(HANDSHAKE)
            if not one.recv(4096).startswith(b"HTTP/1.1 101"):
                break
        status, _, body = said(few, HANDSHAKE)
        assert (status, json.loads(body)["error"]["kind"]) == (503, "unavailable")
        bearer = f"\r\nAuthorization: Bearer {few.token}\r\n\r\n".encode()
        owner = viewers.enter_context(connect(few))
        owner.sendall(HANDSHAKE.replace(b"\r\n\r\n", bearer))
        assert owner.recv(4096).startswith(b"HTTP/1.1 101")
        assert few.ask("/api/snapshot").status == 200

    def comes_in() -> bool:
        with connect(few) as one:
            one.sendall(HANDSHAKE)
            return one.recv(4096).startswith(b"HTTP/1.1 101")

    wait_until(comes_in, "a free place")


def test_dear_questions_delay_only_each_other(tmp_path: Path) -> None:
    """Forty charts over a week at once: the board and the alerts are asked meanwhile."""
    history = tmp_path / "history.db"
    devices = seeding.specimens(1)
    store = SqliteStore(history)
    blocks = seeding.blocks(devices, time.time(), 3.0, Retention())
    store.load([behaviour.describe(one) for one in devices], blocks)
    store.close()
    with serving(tmp_path, ANDON_HISTORY=str(history)) as served, ThreadPoolExecutor(40) as pool:
        since = time.time() - 7 * 86_400

        def chart(number: int) -> Answer:
            span = f"since={since + number}&points=2000"
            return served.ask(f"/api/devices/0/charts?{span}")

        dear = [pool.submit(chart, number) for number in range(40)]
        meanwhile = 0
        while not all(one.done() for one in dear):
            for path in ("/api/board", "/api/alerts", "/api/leases", "/api/devices/0/why"):
                assert served.ask(path).status == 200
                meanwhile += not all(one.done() for one in dear)
        answers = [one.result() for one in dear]
    assert meanwhile >= 4
    busy = [answer for answer in answers if answer.status != 200]
    assert {answer.status for answer in busy} == {503}
    assert all("Retry-After".lower() in map(str.lower, answer.headers) for answer in busy)
    assert busy[0].json()["error"]["hint"]
    assert len(answers) - len(busy) >= 16
