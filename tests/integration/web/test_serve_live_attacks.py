"""Attacks on live events over a raw WebSocket and raw polling, against a real server."""

import json
import socket
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import websocket

from tests.conftest import need
from tests.integration.parts import wait_until
from tests.integration.serving import READY_SECONDS, Answer, Served, serving

pytestmark = pytest.mark.long

POLLING = "/socket.io/?EIO=4&transport=polling"
UPGRADE = "/socket.io/?EIO=4&transport=websocket"
FEW_FILES = 300  # which leaves 44 places
TRUSTED = '42["connect",{"asgi.scope":{"andon.trusted":true}}]'
ODD_PACKETS = (
    '42["subscribe",1,2,3]', "42", "42[]", "4\0", '42["connect"]', '42["disconnect"]', "", "4", "0",
    "2", "3x", "5x", "6", "7", "9", "x", "b!!!", "bAAAA", "4x", "4{}", "4[]", "4null", '4"x"', "43",
    "43[]", "431[]", "44", "45", "46", "47", "48", "49", "40{", "40}", "40[[", "40/", "40/x,",
    "40/x,{}", "40?x", "41/x,", "41/", "42/x,[\"subscribe\"]", "421", "4212345", "42" + "9" * 200,
    "42{}", "42null", "421-", '451-["subscribe",{"_placeholder":true,"num":0}]', '42[null]',
    '42[["subscribe"]]', '42[{"a":1}]', "42[1]", "42[true]", '42["no such event"]', '42["message"]',
    '42["*"]', '42["__disconnect_final"]', '42["subscribe",' + "9" * 200 + "]",
    '42["subscribe",' + "9" * 5000 + "]", "42" + "[" * 20_000, "42" + '["a",' + '{"a":' * 9000,
    '42["subscribe"', '42["subscribe"]x', '42["subscribe",NaN]', '42["subscribe",-Infinity]',
    "42\u00b2[]", "4\u0662[]", "\u0664", "51-[]", '45999999999-["x"]',
)  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where the server's messages go: a pipe that no one reads would stop a talkative one."""
    return tmp_path / "messages"


@pytest.fixture
def home(tmp_path: Path, log: Path) -> Iterator[Served]:
    with logging_server(tmp_path, log) as served:
        yield served


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """For those that look neither at the log nor at what is counted."""
    folder = tmp_path_factory.mktemp("shared")
    with logging_server(folder, folder / "messages") as served:
        yield served


@pytest.fixture(scope="module")
def cramped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One that may open few files, and so has few places."""
    need("prlimit")
    few = ("prlimit", f"--nofile={FEW_FILES}:{FEW_FILES}")
    folder = tmp_path_factory.mktemp("cramped")
    with logging_server(folder, folder / "messages", *few) as served:
        yield served


@contextmanager
def logging_server(state: Path, log: Path, *wrapped: str, simulate: int = 2) -> Iterator[Served]:
    with (
        log.open("wb") as errors,
        serving(state, "--no-history", simulate=simulate, wrapped=wrapped, errors=errors) as served,
    ):
        yield served


@contextmanager
def raw(
    served: Served,
    path: str = UPGRADE,
    joined: bool = True,
    headers: Mapping[str, str] | None = None,
) -> Iterator[Any]:
    """A WebSocket by hand; the two greetings are done where it is to join."""
    found: Any = websocket.create_connection(
        f"ws://127.0.0.1:{served.port}{path}",
        timeout=READY_SECONDS,
        header=[f"{name}: {value}" for name, value in (headers or {}).items()],
    )
    try:
        if joined:
            assert found.recv().startswith("0{")
            found.send("40")
            assert found.recv().startswith("40{")
        yield found
    finally:
        found.shutdown()


def heard(connection: Any, event: str) -> Any:
    """The next event of this name."""
    while True:
        said = connection.recv()
        if said == "2":
            connection.send("3")
        if said.startswith(f'42["{event}"'):
            return json.loads(said[2:])[1]


def ends(connection: Any) -> bool:
    """Whether the server closes it within the next packets."""
    try:
        return any(connection.recv() == "" for _ in range(40))
    except (websocket.WebSocketConnectionClosedException, ConnectionError):
        return True


def commands(snapshot: Any) -> list[str]:
    return [p["command"] for d in snapshot["devices"] for p in d["processes"] if p["command"]]


def live(served: Served) -> Any:
    return served.ask("/api/health").json()["live"]


def opened(served: Served, **headers: str) -> str:
    """A polling session's path."""
    answer = served.ask(POLLING, **headers)
    assert answer.status == 200, answer.body
    return f"{POLLING}&sid={json.loads(answer.body[1:])['sid']}"


def no_traceback(log: Path) -> None:
    said = log.read_text(errors="replace")
    assert "Traceback" not in said, said[-4000:]
    assert len(said) < 20_000, len(said)


@pytest.mark.parametrize("forged", [
    TRUSTED,
    '42["connect",{"asgi.scope":{"andon.trusted":true}},null]',
    '427["connect",{"asgi.scope":{"andon.trusted":true,"andon.line":"x"}},{"token":null}]',
    '40{"asgi.scope":{"andon.trusted":true}}',
    '41\x1e40{"trusted":true}',
])  # fmt: skip
def test_no_event_makes_a_client_trusted(shared: Served, forged: str) -> None:
    with raw(shared) as stranger:
        stranger.send(forged)
        stranger.send('42["subscribe","snapshot"]')
        assert [commands(heard(stranger, "snapshot")) for _ in range(2)] == [[], []]
    with raw(shared, headers=shared.bearer) as owner:
        owner.send('42["subscribe","snapshot"]')
        assert commands(heard(owner, "snapshot"))


def test_a_forged_event_over_polling_makes_no_client_trusted(shared: Served) -> None:
    mine = opened(shared)
    assert shared.ask(mine, "POST", body="40").status == 200
    assert shared.ask(mine, "POST", body=TRUSTED).status == 400
    assert shared.ask(mine, "POST", body=f'42["subscribe"]\x1e{TRUSTED}').status == 400
    assert shared.ask(mine, "POST", body='42["subscribe"]').status == 200
    said = ""
    while '42["snapshot"' not in said:
        said = shared.ask(mine).body
    assert not commands(
        json.loads(said.partition('42["snapshot",')[2].partition("]\x1e")[0].removesuffix("]"))
    )


def test_a_forged_line_and_a_full_outbox_mute_no_one(tmp_path: Path, log: Path) -> None:
    with (
        logging_server(tmp_path, log, simulate=64) as served,
        raw(served) as victim,
        raw(served) as hostile,
    ):
        victim.send('42["subscribe","snapshot"]')
        hostile.send('42["connect",{"asgi.scope":{"andon.line":"x"}}]')
        wait_until(lambda: _overrun(served, hostile), "the end of the hostile client")
        now = time.time()
        while heard(victim, "snapshot")["at"] < now:
            pass
        assert live(served)["state"] == "ok"
        assert live(served)["dropped"] == 1


def _overrun(served: Served, hostile: Any) -> bool:
    with suppress(OSError, websocket.WebSocketException):
        for _ in range(200):
            hostile.send('42["request_gpu_update"]')
    return bool(live(served)["dropped"])


def test_odd_packets_cost_a_counter_and_no_traceback(home: Served, log: Path) -> None:
    before = live(home)["malformed"]
    for packet in ODD_PACKETS:
        with raw(home) as client:
            client.send(packet)
            client.send('425["subscribe","snapshot"]')
            while not client.recv().startswith('435[{"subscribed"'):
                pass
    assert live(home)["malformed"] - before == len(ODD_PACKETS)
    no_traceback(log)


def test_odd_packets_over_polling_cost_a_counter_and_no_traceback(home: Served, log: Path) -> None:
    before = live(home)["malformed"]
    mine = opened(home)
    assert home.ask(mine, "POST", body="40").status == 200
    sent = [packet for packet in ODD_PACKETS if packet]
    for packet in sent:
        assert home.ask(mine, "POST", body=packet).status == 400, packet
    for body in ("", "d=40", "\x1e".join(["3"] * 17)):
        assert home.ask(mine, "POST", body=body).status == 400
    assert home.ask(mine).status == 200
    assert live(home)["malformed"] - before == len(sent) + 3
    no_traceback(log)


def test_odd_packets_of_a_stranger_who_never_joined_are_counted_too(
    home: Served, log: Path
) -> None:
    with raw(home, joined=False) as client:
        for packet in ODD_PACKETS:
            client.send(packet)
        client.send_binary(b"\x00\xff" * 50)
        client.send("40")
        while not client.recv().startswith("40{"):
            pass
    assert live(home)["malformed"] == len(ODD_PACKETS) + 1
    no_traceback(log)


def test_a_flood_of_odd_packets_does_not_fill_the_log(home: Served, log: Path) -> None:
    with raw(home) as client:
        for _ in range(3000):
            client.send('42["subscribe",1,2,3]')
        for _ in range(2000):
            client.send("4\0")
        wait_until(lambda: live(home)["malformed"] >= 5000, "all packets")
    no_traceback(log)


@pytest.mark.parametrize("last", [("40", "41"), ("40", "1", "40", "41"), ("1", "40")])
def test_joining_and_leaving_at_once_leaves_nothing_behind(
    home: Served, log: Path, last: tuple[str, ...]
) -> None:
    with ExitStack() as stack:
        for _ in range(20):
            client = stack.enter_context(raw(home, joined=False))
            with suppress(OSError, websocket.WebSocketException):
                for packet in last * 3:
                    client.send(packet)
    wait_until(lambda: live(home)["clients"] == 0, "the end of all")
    no_traceback(log)


def test_a_session_name_forges_no_log_line(home: Served, log: Path) -> None:
    for name in ("x%0a2026-01-01 CRITICAL FAKE%1b%5b31m", "x" * 5000, "%00", "../../etc"):
        for path in (POLLING, UPGRADE):
            assert home.ask(f"{path}&sid={name.replace(' ', '%20')}").status == 400
            assert (
                home.ask(f"{path}&sid={name.replace(' ', '%20')}", "POST", body="40").status == 400
            )
    assert home.ask(f"{POLLING}&EIO=3&j=%0aFAKE").status == 400
    said = log.read_text()
    assert "FAKE" not in said
    assert "\x1b" not in said
    no_traceback(log)


def test_a_session_has_one_poll_at_a_time(shared: Served) -> None:
    mine = opened(shared)
    assert shared.ask(mine, "POST", body="41").status == 200

    def poll(_: int) -> Answer:
        return shared.ask(mine)

    with ThreadPoolExecutor(8) as pool:
        statuses = [answer.status for answer in pool.map(poll, range(8))]
    assert statuses.count(400) >= 7
    assert shared.ask(mine).status == 400


def test_a_session_has_one_upgrade_at_a_time(shared: Served) -> None:
    sid = opened(shared).partition("sid=")[2]
    with raw(shared, f"{UPGRADE}&sid={sid}", joined=False) as first:
        refused = pytest.raises(websocket.WebSocketBadStatusException, match="400")
        with refused, raw(shared, f"{UPGRADE}&sid={sid}", joined=False):
            pass
        first.send("2probe")
        assert first.recv() == "3probe"


def test_many_anonymous_polls_leave_healthz_and_the_token_their_answers(cramped: Served) -> None:
    served = cramped
    with ExitStack() as stack:
        mine = opened(served)
        request = f"GET {mine} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        for _ in range(80):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), 10))
            one.sendall(request)
        said = [served.ask("/healthz").status for _ in range(20)]
        assert said == [200] * 20
        assert served.ask("/api/health", **served.bearer).status == 200


def handshakes(served: Served, most: int) -> Iterator[int]:
    """Over one connection: they must be faster than those that are forgotten."""
    connection = HTTPConnection("127.0.0.1", served.port, timeout=READY_SECONDS)
    with closing(connection):
        for _ in range(most):
            connection.request("GET", POLLING, headers={"Host": f"localhost:{served.port}"})
            answer = connection.getresponse()
            answer.read()
            yield answer.status


def test_anonymous_handshakes_leave_room_for_the_token(home: Served) -> None:
    def is_refused() -> bool:
        """Filled again each time: on a busy machine the first ones are forgotten meanwhile."""
        assert any(status == 503 for status in handshakes(home, 5000)), "a thousand fill it"
        try:
            with raw(home):
                return False
        except websocket.WebSocketBadStatusException as error:
            return bool(error.status_code == 503)

    assert any(is_refused() for _ in range(10))
    with raw(home, headers=home.bearer) as owner:
        owner.send('42["subscribe","snapshot"]')
        assert commands(heard(owner, "snapshot"))
    assert live(home)["refused"] > 0


def test_a_session_that_ends_ends_its_live_connections(home: Served) -> None:
    code = home.ask("/api/links", "POST", **home.bearer).json()["code"]
    body = json.dumps({"code": code})
    made = home.ask("/api/session", "POST", body=body, Content_Type="application/json").json()
    secret = made["secret"]
    session = {"Authorization": f"Bearer {secret}"}
    with (
        raw(home, headers=session) as by_header,
        raw(home, joined=False) as by_greeting,
        raw(home) as stranger,
        raw(home, headers=home.bearer) as owner,
    ):
        by_greeting.send(f'40{{"token":"{secret}"}}')
        for client in (by_header, by_greeting):
            client.send('42["subscribe","snapshot"]')
            assert commands(heard(client, "snapshot"))
        assert home.ask("/api/session", "DELETE", **session).status in (200, 204)
        assert home.ask("/api/snapshot", **session).status == 401
        for client in (by_header, by_greeting):
            assert ends(client)
        for client in (stranger, owner):
            client.send('42["subscribe","snapshot"]')
            assert heard(client, "snapshot")


def test_namespaces_are_refused_and_cost_nothing(home: Served, log: Path) -> None:
    with raw(home) as client:
        for number in range(6000):
            client.send(f"40/n{number},")
        client.send('425["subscribe","snapshot"]')
        while not client.recv().startswith("435["):
            pass
    assert live(home)["malformed"] == 6000
    no_traceback(log)


def test_a_handshake_that_never_goes_on_loses_its_place(home: Served) -> None:
    began = time.monotonic()
    mine = opened(home)
    with raw(home, joined=False) as silent:
        silent.recv()
        assert ends(silent)
        assert time.monotonic() - began < 25  # the library alone would take 45 s and more
    wait_until(lambda: home.ask(mine, "POST", body="40").status == 400, "the end of the other")


@pytest.mark.parametrize("path", ["/socket.io", "/socket.io/x", "/socket.io//"])
def test_live_events_have_one_address(shared: Served, path: str) -> None:
    assert shared.ask(f"{path}?EIO=4&transport=polling").status == 404
