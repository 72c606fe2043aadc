"""Plays the attacker against a real server: every door, by every way in."""

import base64
import json
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.parts import wait_until
from tests.integration.serving import READY_SECONDS, Answer, Served, andon, serving
from tests.support.homes import node_state

POLLING = "/socket.io/?EIO=4&transport=polling"
UPGRADE = "/socket.io/?EIO=4&transport=websocket"
READS = ("/api/snapshot", "/api/health", "/metrics", POLLING, "/openapi.json", UPGRADE)
DOORS = pytest.mark.parametrize("path", READS)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """On loopback, as by default."""
    with serving(tmp_path_factory.mktemp("home"), "--no-history") as served:
        yield served


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """On every address of this machine."""
    with serving(tmp_path_factory.mktemp("outside"), "--host", "0.0.0.0", "--no-history") as served:
        yield served


def at(served: Served, path: str, **headers: str) -> Answer:
    """A request, or a WebSocket handshake where the path asks for one."""
    if path == UPGRADE:
        headers |= {
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13",
            "Sec_WebSocket_Key": base64.b64encode(os.urandom(16)).decode(),
        }  # fmt: skip
        return _handshake(served, path, headers)
    return served.ask(path, **headers)


def _handshake(served: Served, path: str, headers: dict[str, str]) -> Answer:
    """Only the head is read: an open WebSocket does not end."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    host = named.pop("Host", f"localhost:{served.port}")
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", *(f"{n}: {v}" for n, v in named.items())]
    with socket.create_connection(("127.0.0.1", served.port), READY_SECONDS) as connection:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        with connection.makefile("rb") as file:
            status = int(file.readline().split()[1])
            heads = {}
            while (line := file.readline().decode("latin-1").strip()) != "":
                name, _, value = line.partition(":")
                heads[name.lower()] = value.strip()
    return Answer(status, heads, "")


def _let_in(answer: Answer) -> bool:
    return answer.status in (101, 200)


@DOORS
def test_reading_on_loopback_is_free(home: Served, path: str) -> None:
    assert _let_in(at(home, path))


@DOORS
@pytest.mark.parametrize("host", ["evil.com", "evil.com:26366", "localhost.evil.com", "10.0.0.7",
                                  "127.0.0.1.nip.io", "0.0.0.0"])  # fmt: skip
def test_a_rebound_name_is_refused_at_every_door(home: Served, path: str, host: str) -> None:
    assert at(home, path, Host=host).status == 403
    assert at(home, path, Host=host, **home.bearer).status == 403


@DOORS
@pytest.mark.parametrize("origin", ["http://evil.com", "null", "http://localhost:8888", "file://"])
def test_another_sites_page_is_refused_at_every_door(home: Served, path: str, origin: str) -> None:
    assert at(home, path, Origin=origin).status == 403
    assert at(home, path, Origin=origin, **home.bearer).status == 403


@DOORS
def test_our_own_page_is_let_in_at_every_door(home: Served, path: str) -> None:
    assert _let_in(at(home, path, Origin=f"http://localhost:{home.port}"))


@DOORS
def test_a_fetch_from_another_site_is_refused_without_an_origin(home: Served, path: str) -> None:
    assert at(home, path, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors").status == 403


@DOORS
def test_a_wrong_token_is_refused_at_every_door(outside: Served, path: str) -> None:
    answer = at(outside, path, Authorization="Bearer nonsense")
    assert answer.status in (401, 429)


@DOORS
def test_another_address_needs_the_token_at_every_door(outside: Served, path: str) -> None:
    assert at(outside, path).status == 401
    assert at(outside, path, Origin=f"http://localhost:{outside.port}").status == 401
    assert _let_in(at(outside, path, **outside.bearer))
    assert at(outside, path, Host="evil.com", **outside.bearer).status == 403


@DOORS
@pytest.mark.parametrize(
    "header", ["X_Forwarded_For", "X_Forwarded_Host", "X_Forwarded_Proto", "X_Client_IP",
               "CF_Connecting_IP", "True_Client_IP", "Forwarded", "X_Real_IP"]
)  # fmt: skip
def test_a_proxy_on_this_machine_does_not_open_the_doors(
    home: Served, path: str, header: str
) -> None:
    assert at(home, path, **{header: "203.0.113.9"}).status == 401


def test_another_address_shows_the_shell_and_healthz_alone(outside: Served) -> None:
    assert outside.ask("/healthz").body == "ok\n"
    page = outside.ask("/")
    assert page.status == 200
    assert "SIM-" not in page.body
    assert outside.ask("/static/theme.js").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE"])
@pytest.mark.parametrize("path", ["/api/links", "/api/snapshot", "/metrics", "/", "/healthz"])
def test_what_could_change_something_needs_the_token_on_loopback_too(
    home: Served, method: str, path: str
) -> None:
    assert home.ask(path, method).status == 401
    assert home.ask(path, method, **home.bearer).status != 401


def test_a_foreign_form_cannot_spend_or_make_a_code(home: Served) -> None:
    sent = {"body": json.dumps({"code": "x"}), "Content_Type": "text/plain"}
    assert home.ask("/api/session", "POST", Origin="http://evil.com", **sent).status == 403
    refused = home.ask("/api/links", "POST", Origin="http://evil.com", **home.bearer)
    assert refused.status == 403


def test_a_polling_connection_cannot_be_taken_over_from_another_site(home: Served) -> None:
    opened = json.loads(home.ask(POLLING).body[1:])
    mine = f"{POLLING}&sid={opened['sid']}"
    assert home.ask(mine, "POST", body="40", Origin="http://evil.com").status == 403
    assert home.ask(mine, "POST", body="40", Host="evil.com").status == 403
    assert at(home, f"{UPGRADE}&sid={opened['sid']}", Origin="http://evil.com").status == 403
    assert home.ask(mine, "POST", body="40").status == 200


def test_an_upgrade_needs_a_connection_that_was_let_in(outside: Served) -> None:
    upgrade = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Key": base64.b64encode(os.urandom(16)).decode(),
    }  # fmt: skip
    assert _handshake(outside, f"{UPGRADE}&sid=guessed", upgrade).status == 401
    opened = json.loads(outside.ask(POLLING, **outside.bearer).body[1:])
    assert outside.ask(f"{POLLING}&sid={opened['sid']}x").status == 401
    assert outside.ask(f"/api/snapshot?sid={opened['sid']}").status == 401
    assert _handshake(outside, f"{UPGRADE}&sid={opened['sid']}", upgrade).status == 101


def test_no_answer_sets_a_cookie_or_allows_another_origin(home: Served) -> None:
    for path in (*READS[:-1], "/", "/healthz"):
        names = {name.lower() for name in home.ask(path).headers}
        assert "set-cookie" not in names
        assert not [name for name in names if name.startswith("access-control")]
        assert {"content-security-policy", "x-content-type-options"} <= names
        assert "server" not in names


def test_the_state_folder_is_for_its_owner_alone(home: Served) -> None:
    folder = home.state / "andon"
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in Path(folder).rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_state_folder_that_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    done = andon(tmp_path, "run", "--simulate", "1", "--", "true", ANDON_SIMULATE_SCENARIO="idle",
                 ANDON_LEASE_DIR=str(tmp_path / "book"))  # fmt: skip
    assert done.code == 0, done.err
    folder = tmp_path / "andon"
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    with serving(tmp_path, "--no-history"):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_no_umask_opens_the_state_or_the_history_to_others(tmp_path: Path) -> None:
    home = tmp_path / "home"
    file = home / "state" / "other" / "history.db"
    with serving(home / "state", umask=0, ANDON_HISTORY=str(file)) as served:
        wait_until(
            lambda: served.ask("/api/health").json()["store"]["written_snapshots"], "a write"
        )
        modes = {path: path.stat().st_mode & 0o077 for path in home.rglob("*")}
    assert {"history.db", "history.db-wal", "token", "audit.jsonl"} <= {p.name for p in modes}
    assert set(modes.values()) == {0}, modes


def test_guessing_in_socket_ios_own_greeting_counts_as_well(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-history") as served:
        for _ in range(10):
            opened = json.loads(served.ask(POLLING).body[1:])
            mine = f"{POLLING}&sid={opened['sid']}"
            assert served.ask(mine, "POST", body='40{"token":"guess"}').status == 200
            assert "wrong token" in served.ask(mine).body
        assert served.ask("/api/snapshot", Authorization="Bearer guess").status == 429
        assert served.ask("/api/snapshot", **served.bearer).status == 200


def guessed(served: Served, source: str) -> int:
    """A wrong one-time code from an address of this machine."""
    address = ("127.0.0.1", served.port)
    with socket.create_connection(address, READY_SECONDS, (source, 0)) as connection:
        body = b'{"code":"guess"}'
        head = "POST /api/session HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall((head + kind).encode() + body)
        with connection.makefile("rb") as file:
            return int(file.readline().split()[1])


def test_nobody_on_this_machine_keeps_a_browser_from_signing_in(tmp_path: Path) -> None:
    """Nor fills the audit log, whichever of this machine's addresses it comes from."""
    with serving(tmp_path, "--no-history") as served:
        statuses = [guessed(served, f"127.0.{n // 200}.{1 + n % 200}") for n in range(400)]
        assert statuses == [401] * 10 + [429] * 390
        code = served.ask("/api/links", "POST", **served.bearer).json()["code"]
        sent = {"body": json.dumps({"code": code}), "Content_Type": "application/json"}
        assert served.ask("/api/session", "POST", **sent).status == 200
        assert served.ask("/api/session", "POST", **sent).status == 429
        lines = (node_state(served.state) / "audit.jsonl").read_text().splitlines()
        assert [json.loads(line)["event"] for line in lines].count("wrong_code") == 1
        assert len(lines) <= 6


def test_an_audit_log_that_hangs_stops_the_change_and_nothing_else(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-history") as served:
        log = node_state(served.state) / "audit.jsonl"
        log.unlink()
        os.mkfifo(log)
        with ThreadPoolExecutor(1) as pool:
            change = pool.submit(served.ask, "/api/links", "POST", **served.bearer)
            assert served.ask("/healthz").status == 200
            answer = change.result(READY_SECONDS)
        assert answer.status == 503
        assert "regular file" in answer.json()["error"]["reason"]
        log.unlink()
        assert served.ask("/api/links", "POST", **served.bearer).status == 200


def test_guessing_is_slowed_down_for_each_door_alike(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-history") as served:
        wrong = {"Authorization": "Bearer guess"}
        statuses = [at(served, READS[n % len(READS)], **wrong).status for n in range(11)]
        assert statuses == [401] * 10 + [429]
        for path in READS:
            answer = at(served, path, **wrong)
            assert answer.status == 429
            assert int({k.lower(): v for k, v in answer.headers.items()}["retry-after"]) > 0
        assert _let_in(at(served, "/api/snapshot", **served.bearer))
