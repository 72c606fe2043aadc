"""What REST and live events do for each role, and for a page on another origin."""

import asyncio
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.access.audit_trail import audit_rows
from andon.access.gate import ESTIMATE, SAFE_METHODS, Rules
from andon.access.proxies import proxy_rules
from andon.access.roles import Action, Identity, Role, action_of
from andon.model.device import Snapshot
from andon.web.answers.description import ANSWERS
from andon.web.app import _api
from tests.support import snapshots as drawn
from tests.support.described import check
from tests.support.live_parts import WebSocket, live_of
from tests.support.rows import rows
from tests.support.web_parts import BEARER, HOME, OUTSIDE, TOKEN, Caller, Parts, served

FRIEND = "http://localhost:3000"
PREFLIGHT = {"Access-Control-Request-Method": "POST"}


@pytest.fixture
def farm() -> Snapshot:
    return drawn.farm()


@pytest.fixture
def parts(tmp_path: Path, farm: Snapshot) -> Parts:
    return Parts(tmp_path, [farm])


@pytest.fixture
def client(parts: Parts) -> Iterator[Caller]:
    with served(parts) as found:
        yield found


def key_of(parts: Parts, who: Identity) -> dict[str, str]:
    return {"Authorization": f"Bearer {parts.keys.exchange(parts.keys.new_code(who))}"}


def user_of(snapshot: Snapshot) -> str:
    """Someone with a process, whose command line is known."""
    processes = [p for status in snapshot.devices for p in status.processes]
    found = next(p.user for p in processes if p.command is not None)
    assert found is not None
    return found


def test_every_route_that_changes_something_is_an_action_of_the_table(parts: Parts) -> None:
    described = _api(parts.shop, live_of(parts).run).openapi()["paths"]
    changing = [
        (method.upper(), re.sub(r"[{}]", "", path))
        for path, methods in described.items()
        for method in methods
        if method.upper() not in SAFE_METHODS and (method.upper(), path) != ("POST", ESTIMATE)
    ]
    assert len(changing) > 10
    unknown = [one for one in changing if action_of(*one) is Action.OTHER]
    assert unknown == []
    parts.close()


def test_anyone_may_ask_who_they_are(client: Caller, parts: Parts) -> None:
    nobody = client.get("/api/session").json()
    check(nobody, ANSWERS["get", "/api/session"])
    assert (nobody["role"], nobody["user"], nobody["reads"]) == ("anonymous", None, True)
    assert set(nobody["may"].values()) == {"no"}
    token = client.get("/api/session", headers=BEARER).json()
    assert (token["role"], token["by_token"]) == ("owner", True)
    dora = client.get("/api/session", headers=key_of(parts, Identity(Role.USER, 7, "dora"))).json()
    assert (dora["user"], dora["may"]["cordon"], dora["may"]["release"]) == ("dora", "no", "own")
    assert 0 < dora["expires_in_seconds"] <= 12 * 3600
    assert client.get("/api/session", headers={"Authorization": "Bearer x"}).status_code == 401


def test_elsewhere_a_stranger_learns_that_reading_needs_a_key_and_no_name(
    tmp_path: Path, farm: Snapshot
) -> None:
    with served(Parts(tmp_path, [farm], OUTSIDE), "10.0.0.7", "node17") as outside:
        said = outside.get("/api/session")
        assert said.status_code == 200
        assert (said.json()["reads"], said.json()["server_user"]) == (False, None)
        assert outside.get("/api/snapshot").status_code == 401


@rows(
    "headers",
    [
        {"X-Forwarded-User": "root"}, {"X-Remote-User": "root"}, {"andon.caller": "root"},
        {"Authorization": "Basic cm9vdDo="}, {"Cookie": "andon.secret=x"}, {"X-Andon-Uid": "0"},
    ],
)  # fmt: skip
def test_no_header_makes_anyone_somebody(client: Caller, headers: dict[str, str]) -> None:
    said = client.get("/api/session", headers=headers)
    assert said.status_code == 401 or said.json()["role"] == "anonymous"
    assert client.request("PUT", "/api/devices/0/cordon", headers=headers).status_code == 401


def test_a_user_sees_the_own_command_lines_everywhere(
    client: Caller, parts: Parts, farm: Snapshot
) -> None:
    user = user_of(farm)
    key = key_of(parts, Identity(Role.USER, 4711, user))
    for route in ("/api/snapshot", "/api/processes", "/api/gpu/processes", "/api/devices"):
        all_seen = commands(client.get(route, headers=BEARER).text)
        own = commands(client.get(route, headers=key).text)
        assert own
        assert own == {one for one in all_seen if one[0] == user}, route
        assert commands(client.get(route).text) == set()


def commands(text: str) -> set[tuple[str, str]]:
    """Every command in an answer, with its user, wherever it is."""
    found = set[tuple[str, str]]()

    def look(value: object) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("command"), str) and "user" in value:
                found.add((value["user"], value["command"]))
            for inner in value.values():
                look(inner)
        elif isinstance(value, list):
            for inner in value:
                look(inner)

    look(json.loads(text))
    return found


def test_a_live_client_gets_the_own_command_lines_and_no_others(
    parts: Parts, farm: Snapshot
) -> None:
    user = user_of(farm)
    secret = parts.keys.exchange(parts.keys.new_code(Identity(Role.USER, 4711, user)))

    async def script() -> dict[str, set[tuple[str, str]]]:
        live = live_of(parts)
        seen: dict[str, set[tuple[str, str]]] = {}
        async with live.run():
            for name, auth in (("own", {"token": secret}), ("none", {}), ("all", {"token": TOKEN})):
                socket = WebSocket(parts.app)
                await socket.joined(json.dumps(auth))
                socket.send('427["subscribe","snapshot"]')
                await socket.heard("437")
                live._arrived(replace(farm, at=farm.at + len(seen) + 1))
                said = await socket.heard('42["snapshot"')
                seen[name] = commands(said[2:])
        return seen

    seen = asyncio.run(script())
    parts.close()
    assert seen["none"] == set()
    assert {one[0] for one in seen["own"]} == {user}
    assert len({one[0] for one in seen["all"]}) > 1


def test_what_a_user_may_not_do_is_refused_and_in_the_audit_log(
    client: Caller, parts: Parts
) -> None:
    key = key_of(parts, Identity(Role.USER, 7, "dora"))
    for _ in range(3):
        answer = client.request("PUT", "/api/devices/0/cordon", headers=key, json={"reason": "x"})
        assert answer.status_code == 403
        assert answer.json()["error"]["reason"] == "dora may not cordon here"
    assert client.post("/api/nothing", headers=key, json={}).status_code == 403
    assert client.delete("/api/sessions?everyone=true", headers=key).status_code == 403
    rows = audit_rows(parts.audit.path.read_text().splitlines())
    assert [(row.user, row.uid, row.action, row.result) for row in rows] == [
        ("dora", 7, "cordon", "refused"),
        ("dora", 7, "other", "refused"),
        ("dora", 7, "revoke", "refused"),
    ]


def test_a_revoked_user_is_out_and_the_others_stay(client: Caller, parts: Parts) -> None:
    dora = key_of(parts, Identity(Role.USER, 7, "dora"))
    erik = key_of(parts, Identity(Role.USER, 8, "erik"))
    assert client.delete("/api/sessions", headers=dora).json() == {"ended": 1}
    assert client.get("/api/session", headers=dora).status_code == 401
    assert client.get("/api/session", headers=erik).json()["user"] == "erik"
    assert client.delete("/api/sessions?everyone=true", headers=BEARER).json() == {"ended": 1}
    assert client.get("/api/session", headers=erik).status_code == 401


# A page on another origin.


@pytest.fixture
def friend(tmp_path: Path, farm: Snapshot) -> Iterator[Caller]:
    rules = replace(HOME, origins=frozenset({FRIEND}))
    with served(Parts(tmp_path, [farm], rules)) as found:
        yield found


def allowed(answer_headers: object) -> dict[str, str]:
    return {
        name: value
        for name, value in dict(answer_headers).items()  # type: ignore[call-overload]
        if name.startswith("access-control") and name != "access-control-expose-headers"
    }


def test_a_page_of_an_allowed_origin_asks_first_and_then_may(friend: Caller) -> None:
    asked = friend.request("OPTIONS", "/api/leases", headers={"Origin": FRIEND, **PREFLIGHT})
    assert asked.status_code == 204
    assert allowed(asked.headers) == {
        "access-control-allow-origin": FRIEND,
        "access-control-allow-credentials": "true",
        "access-control-allow-methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
        "access-control-allow-headers": "authorization, content-type",
        "access-control-max-age": "600",
    }
    far = {"Origin": FRIEND, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
    read = friend.get("/api/snapshot", headers=far)
    assert (read.status_code, read.headers["access-control-allow-origin"]) == (200, FRIEND)
    assert read.headers["vary"] == "Origin"
    assert friend.delete("/api/leases/x", headers={**far, **BEARER}).status_code == 404
    refused = friend.delete("/api/leases/x", headers=far)  # it needs a key as everyone does
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, FRIEND)


@rows(
    "origin",
    ["http://localhost:3001", "https://localhost:3000", "http://localhost:80.x", "null", "*",
     "http://localhost:3000.evil.example", "http://evil.example/http://localhost:3000"],
)  # fmt: skip
def test_a_strangers_origin_is_refused_as_before(friend: Caller, origin: str) -> None:
    for method, path in (("GET", "/api/snapshot"), ("OPTIONS", "/api/leases"),
                         ("GET", "/socket.io/?EIO=4&transport=polling")):  # fmt: skip
        answer = friend.request(method, path, headers={"Origin": origin, **PREFLIGHT, **BEARER})
        assert answer.status_code == 403
        assert allowed(answer.headers) == {}


def test_two_origins_are_none(friend: Caller) -> None:
    both = [("Origin", FRIEND), ("Origin", FRIEND)]
    assert friend.get("/api/snapshot", headers=both).status_code == 403


def test_by_default_no_other_origin_is_allowed(client: Caller) -> None:
    answer = client.request("OPTIONS", "/api/leases", headers={"Origin": FRIEND, **PREFLIGHT})
    assert answer.status_code == 403
    assert allowed(answer.headers) == {}
    assert Rules(loopback=True).origins == frozenset()


def test_a_rebound_name_is_refused_whatever_its_origin(tmp_path: Path, farm: Snapshot) -> None:
    rules = replace(HOME, origins=frozenset({FRIEND}))
    with served(Parts(tmp_path, [farm], rules), host="evil.example") as rebound:
        assert rebound.get("/api/snapshot", headers={"Origin": FRIEND}).status_code == 403


def test_live_events_are_for_an_allowed_origin_too(friend: Caller) -> None:
    polled = friend.get("/socket.io/?EIO=4&transport=polling", headers={"Origin": FRIEND})
    assert polled.status_code == 200
    assert polled.headers["access-control-allow-origin"] == FRIEND


def test_a_stranger_who_names_a_person_as_the_proxy_does_is_nobody(
    tmp_path: Path, farm: Snapshot
) -> None:
    proxy = proxy_rules("10.0.0.7", ["ops:operate", "*:read"])
    parts = Parts(tmp_path, [farm], replace(OUTSIDE, proxy=proxy))
    named = {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "ops"}
    silence = {"json": {"seconds": 60, "rule": "fan"}}
    for peer in ("10.0.0.8", "127.0.0.1", "::1", "10.0.0.70"):
        stranger = Caller(parts.app, peer, "node17")
        assert stranger.get("/api/snapshot", headers=named).status_code == 401
        assert stranger.post("/api/silences", headers=named, **silence).status_code == 401
        assert stranger.get("/api/session", headers=named).json()["role"] == "anonymous"
    with served(parts, "10.0.0.7", "node17") as through:
        assert through.get("/api/session", headers=named).json()["user"] == "proxy ada"
        assert through.get("/api/snapshot", headers=named).status_code == 200
        assert through.get("/api/snapshot").status_code == 401, "whom it does not name"
        wrong = {**named, "Authorization": "Bearer wrong"}
        assert through.get("/api/snapshot", headers=wrong).status_code == 401
        assert through.post("/api/silences", headers=named, **silence).status_code == 200
        twice = [*named.items(), ("X-Forwarded-User", "root")]
        assert through.get("/api/snapshot", headers=twice).status_code == 401
        other = {**named, "X-Forwarded-Groups": "none"}
        assert through.post("/api/silences", headers=other, **silence).status_code == 403
        evil = {**named, "Origin": "https://evil.com"}
        assert through.post("/api/silences", headers=evil, **silence).status_code == 403
        assert through.post("/api/tokens", headers=named).status_code == 403
    rows = audit_rows(parts.audit.path.read_text().splitlines())
    assert ("proxy ada", "silence", "done", "proxy") in {
        (row.user, row.action, row.result, row.key) for row in rows
    }


def test_a_named_token_does_what_its_role_may_under_its_name(parts: Parts) -> None:
    digest = hashlib.sha256(b"secret").digest()
    roles = {digest: Identity(Role.OPERATE, user="token ops")}
    parts.keys.named = roles.get
    bearer = {"Authorization": "Bearer secret"}
    with served(parts) as client:
        silence = client.post(
            "/api/silences", headers=bearer, json={"seconds": 60, "rule": "fan", "by": "root"}
        )
        assert silence.json()["by"] == "token ops"
        assert client.post("/api/jobs", headers=bearer, json={"command": ["x"]}).status_code == 403
        assert client.get("/api/tokens", headers=bearer).status_code == 403
        roles.clear()
        assert client.get("/api/snapshot", headers=bearer).status_code == 401
    rows = audit_rows(parts.audit.path.read_text().splitlines())
    assert {(row.user, row.action, row.result) for row in rows} == {
        ("token ops", "silence", "done"), ("token ops", "submit", "refused"),
    }  # fmt: skip
