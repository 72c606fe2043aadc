"""What the routes say: true states, one shape of error, golden payloads."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from andon.access.roles import BLIND
from andon.alerts.rules.lamps_from_sample import lamps_from_sample
from andon.alerts.rules.self_checks import StoreStats
from andon.explain.conditions.rulebook import Rulebook
from andon.fleet.rules.states import NodeList, list_to_text
from andon.model import wire, wire_in
from andon.model.device import Snapshot, State
from andon.model.lease_list import LeaseList
from andon.node.seen.sights import seen_by
from andon.node.watched.recorded_past import NoPast
from andon.settings.resolution import Settings
from andon.web.answers import payloads
from andon.web.fleet.listing import own_row
from tests.support import snapshots as drawn
from tests.support.replaced import answers
from tests.support.snapshots import AT, assert_golden
from tests.support.web_parts import BEARER, Caller, Parts, served

ROUTES = (
    "/api/gpu/summary", "/api/gpu/metrics", "/api/gpu/processes", "/api/health", "/api/system",
    "/api/devices", "/api/processes", "/api/snapshot", "/api/snapshots", "/api/alerts",
    "/api/leases", "/api/jobs", "/api/runs", "/api/nodes", "/api/topology",
)  # fmt: skip
GOLDEN: dict[str, Callable[[Snapshot], wire.Json]] = {
    "gpu-summary": lambda s: payloads.gpu_summary(s, Settings()),
    "gpu-metrics": payloads.gpu_metrics,
    "gpu-processes": payloads.gpu_processes,
    "gpu-processes-without-token": lambda s: payloads.gpu_processes(seen_by(BLIND, s)),
    "event-gpu_status": lambda s: payloads.gpu_summary(s, Settings()),
    "event-gpu_status_update": lambda s: payloads.gpu_summary(s, Settings()),
    "event-high_gpu_usage_alert": lambda s: payloads.high_usage(s, payloads.busy_uuids(s)),
    "event-snapshot": wire.snapshot_to_json,
    "system": payloads.system,
    "nodes": lambda s: wire.loads(
        list_to_text(
            NodeList(AT, False, (own_row(s, LeaseList(AT), (), {"warning": 1}, AT + 0.5),))
        ),
        wire.ANSWER,
    ),
    "why": lambda s: payloads.why([s], "2", None, lamps_from_sample(s, Rulebook())),
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    with served(Parts(tmp_path_factory.mktemp("state"), [drawn.farm()])) as found:
        yield found


@pytest.mark.parametrize("name", GOLDEN)
def test_the_golden_payloads_are_what_is_said(name: str) -> None:
    said = GOLDEN[name](drawn.farm())
    text = json.dumps(said, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    assert_golden(f"api/{name}.json", text)


def test_the_golden_health_is_what_is_said(tmp_path: Path) -> None:
    for _ in range(20):  # on a machine that is too busy the parts are late, and rightly say so
        parts = Parts(tmp_path, [drawn.farm()])
        said = parts.shop.health(parts.shop.parts)
        parts.close()
        if said["sampler"]["state"] == said["leases"]["state"] == "ok":
            break
    said |= {"at": AT, "uptime_seconds": 60.0, "version": "0.1.0"}
    said["sampler"]["age_seconds"] = 0.4
    said["leases"] |= {"path": "/run/andon", "owner": "root", "readable": True, "count": 2}
    assert_golden("api/health.json", json.dumps(said, indent=2, ensure_ascii=False) + "\n")


def test_the_uptime_is_not_counted_on_the_wall_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, now = Parts(tmp_path, [drawn.farm()]), time.time()
    answers(monkeypatch, time, "time", now - 86_400)
    said = parts.shop.health(parts.shop.parts)
    parts.close()
    assert 0 <= said["uptime_seconds"] < 3600


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_answers(client: Caller, route: str) -> None:
    answer = client.get(route)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert isinstance(answer.json(), dict)


def test_a_node_without_a_gpu_answers_with_the_reason(tmp_path: Path) -> None:
    with served(Parts(tmp_path, [drawn.no_gpu()])) as client:
        answers = {route: client.get(route) for route in ROUTES}
    assert {answer.status_code for answer in answers.values()} == {200}
    told = [said for answer in answers.values() if "available" in (said := answer.json())]
    assert len(told) >= 6
    assert all(said["available"] is False and said["reason"] and said["hint"] for said in told)
    assert answers["/api/health"].json()["reason"]


def test_before_the_first_look_the_server_says_so(tmp_path: Path) -> None:
    with served(Parts(tmp_path, [])) as client:
        answer = client.get("/api/snapshot")
        assert answer.status_code == 503
        assert answer.json()["error"]["kind"] == "unavailable"
        said = client.get("/api/health").json()
    assert (said["status"], said["sampler"]["state"]) == ("degraded", "starting")


def test_the_snapshot_is_the_one_that_the_command_line_reads(client: Caller) -> None:
    read = wire_in.snapshot_from_json(client.get("/api/snapshot", headers=BEARER).json())
    assert read == wire_in.snapshot_from_json(wire.snapshot_to_json(drawn.farm()))


def test_command_lines_are_for_those_with_the_token(client: Caller) -> None:
    for route in ("/api/snapshot", "/api/snapshots", "/api/processes", "/api/gpu/processes",
                  "/api/gpu/metrics", "/api/gpu/summary",
                  "/api/devices", "/api/devices/2", "/api/devices/2/why"):  # fmt: skip
        said = client.get(route).text
        assert not [found for found in _values(json.loads(said), "command") if found], route
    shown = client.get("/api/processes", headers=BEARER).json()
    assert [found for found in _values(shown, "command") if found]
    assert shown["note"] == "GPU 3, 4 do not respond: their processes are not listed"
    assert "token" in client.get("/api/processes").json()["note"]


def _values(value: Any, name: str) -> list[Any]:
    if isinstance(value, dict):
        own = (
            [value[name]] if name in value and not isinstance(value.get("pid"), type(None)) else []
        )
        return own + [one for part in value.values() for one in _values(part, name)]
    if isinstance(value, list):
        return [one for part in value for one in _values(part, name)]
    return []


def test_a_device_has_an_index_a_uuid_and_the_beginning_of_one(client: Caller) -> None:
    uuid = drawn.uuid(2)
    for name in ("2", uuid, uuid[:12], uuid[:12].lower()):
        assert client.get(f"/api/devices/{name}").json()["device"]["uuid"] == uuid
    assert client.get("/api/devices/2/why").json()["devices"][0]["uuid"] == uuid


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/nowhere", 404, "gone"),
        ("GET", "/api/devices/99", 404, "gone"),
        ("GET", "/api/devices/GPU-nobody/why", 404, "gone"),
        ("GET", "/api/devices/GPU-0000", 422, "invalid"),
        ("PUT", "/api/health", 405, "invalid"),
        ("POST", "/api/gpu/summary", 405, "invalid"),
        ("GET", "/api/devices/0/history", 422, "invalid"),
        ("GET", "/api/devices/0/history?metric=power_watts&points=0", 422, "invalid"),
        ("GET", "/api/devices/0/history?metric=power_watts&since=now", 422, "invalid"),
        ("GET", "/api/devices/0/history?metric=power_watts", 503, "unavailable"),
        ("GET", "/static/nothing.js", 404, "gone"),
        ("GET", "/static/..%2fapp.py", 404, "gone"),
        ("DELETE", "/api/session", 404, "gone"),
    ],
)
def test_every_error_has_one_shape(
    client: Caller, method: str, path: str, status: int, kind: str
) -> None:
    answer = client.request(method, path, headers=BEARER)
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert answer.json()["error"]["kind"] == kind
    assert answer.json()["error"]["reason"]
    assert answer.json()["error"]["hint"]


def test_the_unexpected_has_the_same_shape_and_tells_nothing(tmp_path: Path) -> None:
    parts = Parts(tmp_path, [drawn.farm()])
    broken = replace(drawn.farm(), devices=(object(),))
    with served(parts) as client:
        while parts.live.last is not broken:
            parts.sampler.give(broken)
        answer = client.get("/api/snapshot", headers=BEARER)
    assert answer.status_code == 500
    assert answer.json()["error"]["kind"] == "failed"
    assert "object" not in answer.text


def test_healthz_says_only_ok_and_metrics_are_the_exporters(client: Caller) -> None:
    assert client.get("/healthz").text == "ok\n"
    assert client.get("/metrics").text == "andon_up 1\n"


def test_health_tells_of_lost_devices_and_of_a_store_that_fails(tmp_path: Path) -> None:
    parts = Parts(tmp_path, [drawn.farm()], memory=_Full())
    with served(parts) as client:
        said = client.get("/api/health").json()
        answer = client.get("/api/devices/0/history?metric=power_watts")
    assert said["status"] == "degraded"
    assert said["store"]["state"] == "failing"
    rows = {row["name"]: row for row in said["backends"]}
    assert rows["nvidia"]["state"] in ("degraded", "failing")
    assert rows["nvidia"]["devices"]["lost"] == 1
    assert answer.status_code == 503
    assert answer.json()["error"]["reason"] == "the disk is full"


class _Full(NoPast):
    def __init__(self) -> None:
        super().__init__("the disk is full", "make room")

    def health(self) -> wire.Json:
        return {"state": "failing", "reason": "the disk is full"}

    def vitals(self) -> StoreStats:
        return StoreStats("the disk is full")


def test_health_says_when_sampling_has_stopped(tmp_path: Path) -> None:
    parts = Parts(tmp_path, [drawn.farm()])
    with served(parts) as client:
        parts.live.close()
        while parts.live.runs:
            pass
        said = client.get("/api/health").json()
    assert (said["status"], said["sampler"]["state"]) == ("failing", "stopped")


def test_a_session_is_had_for_a_code_once(client: Caller) -> None:
    code = client.post("/api/links", headers=BEARER).json()["code"]
    answer = client.post("/api/session", json={"code": code})
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers
    secret = {"Authorization": f"Bearer {answer.json()['secret']}"}
    assert client.get("/api/session", headers=secret).json()["role"] == "owner"
    assert client.post("/api/session", json={"code": code}).status_code == 401
    assert client.delete("/api/session", headers=secret).status_code == 200
    assert client.post("/api/links", headers=secret).status_code == 401


def test_a_session_signs_a_phone_in_and_cannot_renew_itself(tmp_path: Path) -> None:
    parts = Parts(tmp_path, [drawn.farm()])
    with served(parts) as client:

        def session(code: str) -> dict[str, str]:
            answer = client.post("/api/session", json={"code": code})
            return {"Authorization": f"Bearer {answer.json().get('secret')}"}

        def link(**given: str) -> dict[str, Any]:
            answer = client.post("/api/links", headers=mine, json=given or None)
            return {"status": answer.status_code, **answer.json()}

        def left(headers: dict[str, str]) -> float:
            return float(client.get("/api/session", headers=headers).json()["expires_in_seconds"])

        mine = session(client.post("/api/links", headers=BEARER).json()["code"])
        made = link(address="http://localhost")
        assert len(made["qr"]) == len(made["qr"][0]) > 20
        phone = session(made["code"])
        assert 0 < left(phone) <= left(mine) + 0.1, "no longer than the one that made it"
        assert client.post("/api/session", json={"code": made["code"]}).status_code == 401
        assert link(address="http://elsewhere.example")["status"] == 422
        late = link()["code"]
        assert client.delete("/api/session", headers=mine).status_code == 200
        assert client.post("/api/session", json={"code": late}).status_code == 401, "it is over"
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    links = [one for one in lines if one.get("action") == "make_link"]
    assert [one["key"] for one in links] == ["token", "session", "session", "session"]
    assert made["code"] not in str(lines)


def test_high_usage_is_above_half_and_not_at_it() -> None:
    farm = drawn.farm()
    status = farm.devices[0]
    assert status.sample is not None

    def at(percent: int | None, state: State = State.OK) -> Snapshot:
        sample = replace(status.sample, utilization_percent=percent)  # type: ignore[type-var]
        return replace(farm, devices=(replace(status, sample=sample, state=state),))

    assert not payloads.busy_uuids(at(50))
    assert payloads.busy_uuids(at(51))
    assert not payloads.busy_uuids(at(None))
    assert not payloads.busy_uuids(at(99, State.STALE))


def test_the_api_page_and_its_style_are_for_everyone_and_under_the_same_policy(
    client: Caller,
) -> None:
    page, style = client.get("/docs"), client.get("/docs/style.css")
    assert (page.status_code, style.status_code) == (200, 200)
    assert page.headers["content-type"].startswith("text/html")
    assert style.headers["content-type"].startswith("text/css")
    assert "/api/gpu/summary" in page.text
    assert "default-src 'self'" in page.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("asked", "named", "hint"),
    [
        ("/api/alerts?sate=firing", "'sate'", "state, level, rule, device, since, limit"),
        ("/api/snapshot?pretty=1", "'pretty'", "this route has no parameters"),
        ("/api/usage?device=0&form=1&until=2", "'form'", "since"),
        ("/api/recent?metrics=power_watts", "'metrics'", "metric"),
        ("/api/nodes?a=1&b=2", "'a', 'b'", "no parameters"),
    ],
)
def test_an_unknown_parameter_is_refused_by_name(
    client: Caller, asked: str, named: str, hint: str
) -> None:
    answer = client.get(asked)
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["kind"] == "invalid"
    assert named in error["reason"]
    assert hint in error["hint"]


def test_machines_may_add_parameters_of_their_own(client: Caller) -> None:
    assert client.get("/metrics?collect[]=x").status_code == 200
    assert client.get("/healthz?now=1").status_code == 200
    assert client.get("/?utm=1").status_code == 200
