"""The gate, the keys and the log: what a caller meets before any route."""

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from andon.access import server_proof
from andon.access.gate import ShownKey
from andon.access.lockout import ALLOWED
from andon.errors import Denied, Unavailable
from andon.host.state.user_folder import open_state_folder, read_token
from andon.web.transport.audit import MOST_WAITING, Audit
from andon.web.transport.headers import Message, Scope
from andon.web.transport.keys import (
    CODE_SECONDS,
    MOST_SESSIONS,
    SESSION_SECONDS,
    Keys,
    make_token,
)
from tests.support import snapshots as drawn
from tests.support.rows import rows
from tests.support.web_parts import BEARER, HOME, OUTSIDE, TOKEN, Caller, Parts, served

WRONG = {"Authorization": "Bearer " + "w" * 43}


@pytest.fixture
def home(tmp_path: Path) -> Any:
    with served(Parts(tmp_path, [drawn.farm()], HOME)) as caller:
        yield caller


@pytest.fixture
def outside(tmp_path: Path) -> Any:
    with served(Parts(tmp_path, [drawn.farm()], OUTSIDE), "10.0.0.9", "node17") as caller:
        yield caller


def test_every_answer_carries_the_security_headers_also_a_refusal(home: Caller) -> None:
    for answer in (home.get("/"), home.get("/api/snapshot"), home.get("/nowhere"),
                   home.get("/", headers={"Host": "evil.com"}), home.post("/api/links"),
                   home.get("/static/theme.js"), home.get("/healthz")):  # fmt: skip
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'self'")
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in answer.headers
        assert "set-cookie" not in answer.headers


@rows(
    "authorization",
    ["Basic " + TOKEN, TOKEN, "Bearer", "Bearer ", "Bearer  x", f"Bearer {TOKEN}x",
     f"Bearer {TOKEN[:-1]}", f"Token {TOKEN}", "Bearer \xe9"],
)  # fmt: skip
def test_a_key_that_is_not_quite_one_is_wrong(home: Caller, authorization: str) -> None:
    given = {"Authorization": authorization.encode("latin-1")}
    answer = home.get("/api/snapshot", headers=given)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


@rows("form", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER  {TOKEN} "])
def test_the_schemes_name_is_in_any_case(home: Caller, form: str) -> None:
    assert home.post("/api/links", headers={"Authorization": form}).status_code == 200


def test_two_authorizations_are_one_too_many(home: Caller) -> None:
    twice = [("Authorization", f"Bearer {TOKEN}")] * 2
    assert home.get("/api/snapshot", headers=twice).status_code == 401


def test_guessers_have_to_wait_and_are_told_how_long(outside: Caller) -> None:
    for _ in range(ALLOWED):
        assert outside.get("/api/snapshot", headers=WRONG).status_code == 401
    answer = outside.get("/api/snapshot", headers=WRONG)
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 61
    assert outside.get("/api/snapshot", headers=BEARER).status_code == 429
    assert outside.get("/healthz").status_code == 200


def test_nobody_can_lock_the_owner_out_on_the_same_machine(home: Caller) -> None:
    for _ in range(ALLOWED):
        home.get("/api/snapshot", headers=WRONG)
    assert home.get("/api/snapshot", headers=WRONG).status_code == 429
    assert home.get("/api/snapshot", headers=BEARER).status_code == 200
    assert home.get("/api/snapshot").status_code == 200


def test_wrong_codes_count_as_wrong_keys(outside: Caller) -> None:
    for number in range(ALLOWED):
        said = {"code": f"guess {number}"} if number % 2 else {"nonsense": number}
        assert outside.post("/api/session", json=said).status_code in (401, 422)
    assert outside.post("/api/session", json={"code": "another"}).status_code == 429


def test_a_right_code_passes_on_the_same_machine_as_a_right_token_does(
    home: Caller, tmp_path: Path
) -> None:
    """Else any user could keep another's browser from signing in."""
    for _ in range(ALLOWED):
        home.post("/api/session", json={"code": "guess"})
    assert home.post("/api/session", json={"code": "guess"}).status_code == 429
    for headers in ({}, BEARER):
        code = home.post("/api/links", headers=BEARER).json()["code"]
        assert home.post("/api/session", json={"code": code}, headers=headers).status_code == 200
        assert home.post("/api/session", json={"code": code}).status_code == 429  # it is spent
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    signed_in = [line["key"] for line in lines if line.get("path") == "/api/session"]
    assert signed_in == ["code", "token"]


@rows("body", [b"", b"{", b"[]", b'"code"', b'{"code": 5}', b"[" * 30_000, b"\xff"])
def test_what_is_no_code_is_a_wrong_one(home: Caller, body: bytes) -> None:
    sent = {"Content-Type": "application/json"}
    assert home.post("/api/session", content=body, headers=sent).status_code in (400, 401, 422)


def test_every_address_of_this_machine_is_one_guesser(tmp_path: Path) -> None:
    parts = Parts(tmp_path, [drawn.farm()], HOME)
    for number in range(ALLOWED + 1):
        peers = (f"127.0.{number}.7", "::1", "::ffff:127.0.0.3")
        caller = Caller(parts.app, peers[number % len(peers)], "localhost")
        status = caller.post("/api/session", json={"code": "guess"}).status_code
        assert status == (401 if number < ALLOWED else 429)
    parts.close()


def test_wrong_codes_cannot_fill_the_log(tmp_path: Path) -> None:
    """They need no right at all: one line a minute says how many there were."""
    parts = Parts(tmp_path, [drawn.farm()], OUTSIDE)
    for number in range(50):
        caller = Caller(parts.app, f"10.0.{number}.9", "node17")
        assert caller.post("/api/session", json={"code": "guess"}).status_code == 401
    parts.close()
    lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["wrong_code"]


def test_asking_without_a_key_is_not_guessing(outside: Caller) -> None:
    for _ in range(3 * ALLOWED):
        assert outside.get("/metrics").status_code == 401
    assert outside.get("/metrics", headers=BEARER).status_code == 200


def test_outside_the_shell_loads_and_nothing_else(outside: Caller) -> None:
    for path in ("/", "/static/theme.js", "/static/icon.svg", "/favicon.ico", "/healthz",
                 "/docs", "/docs/style.css"):  # fmt: skip
        assert outside.get(path).status_code == 200, path
    for path in ("/api/health", "/api/snapshot", "/metrics", "/openapi.json", "/nowhere",
                 "/socket.io/?EIO=4&transport=polling", "/docs/x", "/static"):  # fmt: skip
        assert outside.get(path).status_code == 401, path


@rows("path", ["/api/session", "/socket.io/?EIO=4&transport=polling", "/api/x"])
def test_nobody_can_fill_the_memory_with_what_they_send(home: Caller, path: str) -> None:
    assert home.post(path, content=b"x" * 64_001, headers=BEARER).status_code == 413
    assert home.post(path, headers={"Transfer-Encoding": "chunked", **BEARER}).status_code == 411
    for size in ("9" * 40, "0" * 20, "0000064001", "-1", "1e3", "64001"):
        assert home.post(path, headers={"Content-Length": size, **BEARER}).status_code == 413


@rows(
    "name",
    ["Forwarded", "X-Forwarded-For", "X-Real-IP", "Via", "X-Forwarded-Host", "X-Forwarded-Proto",
     "X-Forwarded-Port", "X-Forwarded-Server", "X-Client-IP", "CF-Connecting-IP", "True-Client-IP",
     "X-Cluster-Client-IP", "Fastly-Client-IP", "X-Forwarded"],
)  # fmt: skip
def test_who_comes_through_a_proxy_needs_the_token(home: Caller, name: str) -> None:
    assert home.get("/api/snapshot", headers={name: "for=10.0.0.9"}).status_code == 401
    assert home.get("/api/snapshot", headers={name: "x", **BEARER}).status_code == 200


def test_every_change_is_written_down_with_what_came_of_it(home: Caller, tmp_path: Path) -> None:
    home.get("/api/snapshot")
    home.post("/api/links")  # refused, so nothing changes
    home.post("/api/links", headers=BEARER)
    home.post("/api/session", json={"code": "wrong"})
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    told = [
        (line["event"], line.get("path"), line.get("status"), line.get("key")) for line in lines
    ]
    assert told == [
        ("requested", "/api/links", None, "token"),
        ("done", None, 200, None),
        ("wrong_code", None, None, None),
    ]
    assert lines[0]["id"] == lines[1]["id"]
    assert lines[2]["count"] == 1
    assert TOKEN not in (tmp_path / "audit.jsonl").read_text()
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_written_down_is_not_done(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    parts = Parts(tmp_path, [drawn.farm()])
    with served(parts) as caller:
        answer = caller.post("/api/links", headers=BEARER)
        assert answer.status_code == 503
        assert "audit" in answer.json()["error"]["reason"]
        assert caller.get("/api/snapshot").status_code == 200


def test_the_log_is_only_ever_added_to(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").write_text('{"event": "before"}\n')
    Audit(tmp_path).write("after")
    assert [
        json.loads(line)["event"] for line in Audit(tmp_path).path.read_text().splitlines()
    ] == [
        "before",
        "after",
    ]


def test_the_log_is_bounded_and_the_one_before_it_is_kept(tmp_path: Path) -> None:
    audit = Audit(tmp_path, most_bytes=1_000)
    for number in range(40):
        audit.write("done", number=number)
    kept = audit.earlier.read_text() + audit.path.read_text()
    numbers = [json.loads(line)["number"] for line in kept.splitlines()]
    assert numbers == list(range(numbers[0], 40))
    assert len(numbers) >= 15
    assert all(path.stat().st_size <= 1_000 for path in (audit.path, audit.earlier))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit.jsonl", "audit.jsonl.1"]


def test_a_pipe_in_the_place_of_the_log_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "audit.jsonl")
    with pytest.raises(Unavailable, match="regular file"):
        Audit(tmp_path).write("after")


def test_a_disk_that_hangs_stops_only_the_change_that_waits_for_it(tmp_path: Path) -> None:
    """The line is written in a thread; the loop answers others meanwhile."""
    held = threading.Event()

    class Hanging(Audit):
        def _append(self, line: bytes) -> None:
            held.wait()

    parts = Parts(tmp_path, [drawn.farm()], audit=Hanging(tmp_path, deadline_seconds=0.05))
    caller = Caller(parts.app, "127.0.0.1", "localhost")

    async def both() -> tuple[httpx.Response, httpx.Response]:
        change = asyncio.ensure_future(caller.ask("POST", "/api/links", headers=BEARER))
        await asyncio.sleep(0)
        health = await caller.ask("GET", "/healthz")
        assert not change.done()
        return health, await change

    health, change = asyncio.run(both())
    assert (health.status_code, change.status_code) == (200, 503)
    assert "audit" in change.json()["error"]["reason"]
    held.set()
    parts.close()


def test_too_many_lines_that_wait_are_refused_at_once(tmp_path: Path) -> None:
    held = threading.Event()

    class Hanging(Audit):
        def _append(self, line: bytes) -> None:
            held.wait()

    async def play() -> None:
        audit = Hanging(tmp_path, deadline_seconds=60.0)
        waiting = [
            asyncio.ensure_future(audit.record("requested")) for _ in range(MOST_WAITING + 8)
        ]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert all(isinstance(one.exception(), Unavailable) for one in done)
        held.set()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(play())


def test_a_link_in_the_place_of_the_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unavailable):
        Audit(tmp_path).write("after")


# A handshake that is refused: in HTTP where the server can, else by a code.


def _handshake(parts: Parts, headers: list[tuple[bytes, bytes]], extensions: Any) -> list[Message]:
    scope: Scope = {
        "type": "websocket", "path": "/socket.io/", "query_string": b"EIO=4&transport=websocket",
        "headers": headers, "client": ("127.0.0.1", 1), "extensions": extensions,
        "subprotocols": [], "scheme": "ws",
    }  # fmt: skip
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(parts.app(scope, receive, send))  # type: ignore[arg-type]
    return sent


@pytest.mark.parametrize(
    "headers",
    [[(b"host", b"evil.com")], [], [(b"host", b"localhost"), (b"origin", b"http://evil.com")],
     [(b"host", b"localhost"), (b"authorization", b"Bearer wrong")]],
)  # fmt: skip
def test_a_foreign_handshake_is_refused_in_either_way(
    tmp_path: Path, headers: list[tuple[bytes, bytes]]
) -> None:
    parts = Parts(tmp_path, [drawn.farm()])
    in_http = _handshake(parts, headers, {"websocket.http.response": {}})
    assert in_http[0]["type"] == "websocket.http.response.start"
    assert in_http[0]["status"] in (401, 403)
    assert _handshake(parts, headers, {})[0]["type"] == "websocket.close"
    parts.close()


# The proof that a server gives before it is sent the token.


@pytest.mark.parametrize("where", ["home", "outside"])
def test_anyone_may_ask_for_the_proof_and_it_is_the_right_one(
    where: str, request: pytest.FixtureRequest
) -> None:
    caller: Caller = request.getfixturevalue(where)
    nonce = bytes(range(32))
    answer = caller.get("/api/proof", params={"nonce": nonce.hex()})
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    said = server_proof.parse_statement(answer.json())
    assert said is not None
    key = server_proof.proof_key(server_proof.token_hash(TOKEN))
    assert said == server_proof.prove(key, nonce, said.place)
    assert TOKEN not in answer.text


@rows("nonce", [None, "", "0" * 63, "0" * 65, "0" * 64 + "\n", "G" * 64, "٠" * 64, "0" * 10_000])
def test_a_nonce_that_is_none_is_refused(home: Caller, nonce: str | None) -> None:
    asked = {} if nonce is None else {"nonce": nonce}
    assert home.get("/api/proof", params=asked).status_code == 422


def test_the_proof_is_asked_for_by_reading_alone(home: Caller, outside: Caller) -> None:
    path = f"/api/proof?nonce={'0' * 64}"
    for method in ("POST", "PUT", "DELETE"):
        assert home.request(method, path).status_code == 401
    assert outside.get(path, headers={"Host": "evil.example"}).status_code == 403
    assert outside.get(path, headers={"Origin": "http://evil.example"}).status_code == 403


# Keys.


def test_a_token_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        token = make_token(tmp_path)
    finally:
        os.umask(old)
    assert len(token) >= 43
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert make_token(tmp_path) == token
    assert sorted(path.name for path in tmp_path.iterdir()) == ["token"]


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_state_folder_that_others_may_write_is_refused(state_folder: Path, mode: int) -> None:
    folder = open_state_folder()
    folder.chmod(mode)
    with pytest.raises(Denied, match="other users can write") as caught:
        open_state_folder()
    assert "chmod 700" in caught.value.hint


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_token_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    make_token(tmp_path)
    (tmp_path / "token").chmod(mode)
    with pytest.raises(Denied, match="other users can read"):
        read_token(tmp_path / "token")


def test_a_short_or_missing_token_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        read_token(tmp_path / "token")
    (tmp_path / "token").touch(0o600)
    with pytest.raises(Denied, match="too short"):
        make_token(tmp_path)


def test_a_code_and_a_session_end_with_their_time() -> None:
    now = [0.0]
    keys = Keys(TOKEN, clock=lambda: now[0])
    late, code = keys.new_code(), keys.new_code()
    secret = keys.exchange(code)
    assert secret is not None
    assert keys.grade(secret) is ShownKey.SESSION
    now[0] = CODE_SECONDS
    assert keys.exchange(late) is None
    now[0] = SESSION_SECONDS - 1
    assert keys.grade(secret) is ShownKey.SESSION
    now[0] = SESSION_SECONDS
    assert keys.grade(secret) is ShownKey.WRONG
    assert keys.grade(TOKEN) is ShownKey.TOKEN


def test_a_code_is_no_key_and_a_session_is_no_code() -> None:
    keys = Keys(TOKEN)
    code = keys.new_code()
    assert keys.grade(code) is ShownKey.WRONG
    secret = keys.exchange(code)
    assert secret is not None
    assert keys.exchange(secret) is None
    assert keys.exchange(TOKEN) is None
    assert keys.end_session(secret)
    assert not keys.end_session(secret)
    assert keys.grade(secret) is ShownKey.WRONG


def test_what_is_kept_of_codes_is_bounded() -> None:
    keys = Keys(TOKEN)
    first = keys.new_code()
    for _ in range(MOST_SESSIONS):
        keys.new_code()
    assert keys.exchange(first) is None


def test_no_answer_is_ever_a_redirect(home: Caller) -> None:
    for path in ("/api/snapshot/", "/static", "/api", "/socket.io"):
        answer: httpx.Response = home.get(path)
        assert answer.status_code in (400, 404, 405), path
