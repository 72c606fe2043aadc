"""Every route and every live event for every role: what each may do, and whose secrets it sees.

A route of the OpenAPI description or a live event without a row here fails.
"""

import asyncio
import base64
import itertools
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from andon.access.local_rest import is_answered
from andon.access.roles import ALL_SEEING, Identity, Role
from andon.errors import Gone
from andon.model.device import Snapshot
from andon.model.job.facts import JobState, JobView, view_to_json
from andon.model.run.wire import row_to_json
from andon.model.shapes import to_json
from andon.web.runs.shown import FoundRuns, ServerRuns
from andon.web.transport.local_calls import LocalCalls
from tests.conftest import REPOSITORY
from tests.support import snapshots as drawn
from tests.support.live_parts import WebSocket, live_of
from tests.support.queued_jobs import one_job
from tests.support.run_records import BEGAN, begin, end, sample, write_record
from tests.support.served_runs import row_at, runs_of
from tests.support.user_parts import Told, Users, jobs_told
from tests.support.web_parts import BEARER, HOME, OUTSIDE, TOKEN, Caller, Parts

ROLES = ("anonymous here", "anonymous elsewhere", "another user", "the owner", "token")
ALICE, DORA = Identity(Role.USER, 1234, "alice"), Identity(Role.USER, 1235, "dora")
SECRETS = {"A": "alices-secret", "R": "roots-secret"}
RUN = "kqzvmtra"
READ = "200 401 200 200 200"
"""Everyone on this machine, and elsewhere those with a key."""
OWN = "200 401 200 200A 200A"
"""The same; what is alice's is shown to her and to root."""
ABSENT, NO_HISTORY = "404 401 404 404 404", "503 401 503 503 503"
"""As READ, of what is not there."""
OPEN = "200 200 200 200 200"
KEY = "401 401 404 404 404"
"""Changes that need a key, of something that is not there."""
ROOT = "401 401 403 403 200"
"""Changes of root alone."""
NAMES = {"name": "fan", "device": "0", "job": "1", "run": RUN}  # of others there is none
ROUTES: dict[str, str | tuple[str, Any]] = {
    "GET /api/alerts": OWN,
    "GET /api/alerts/rules": READ,
    "GET /api/alerts/rules/{name}": READ,
    "POST /api/alerts/test": (ROOT, {}),
    "GET /api/alerts/{alert}": ABSENT,
    "DELETE /api/alerts/{alert}/acknowledge": KEY,
    "POST /api/alerts/{alert}/acknowledge": (KEY, {"by": "x"}),
    "GET /api/board": READ,
    "GET /api/charts": NO_HISTORY,
    "GET /api/users": NO_HISTORY,
    "GET /api/qr": "422 401 422 422 422",
    "GET /api/devices": OWN,
    "GET /api/devices/{device}": OWN,
    "GET /api/devices/{device}/charts": NO_HISTORY,
    "DELETE /api/devices/{device}/cordon": "401 401 403 403 404",
    "PUT /api/devices/{device}/cordon": (ROOT, {"reason": "x"}),
    "GET /api/devices/{device}/history?metric=power_watts": NO_HISTORY,
    "GET /api/devices/{device}/usage": NO_HISTORY,
    "GET /api/devices/{device}/why": OWN,
    "GET /api/estimate": READ,
    "POST /api/estimate": (READ, {"model": "llama-3-8b"}),
    "GET /api/features": READ,
    "GET /api/gpu/metrics": OWN,
    "GET /api/gpu/processes": OWN,
    "GET /api/gpu/summary": READ,
    "GET /api/health": READ,
    "GET /api/history/devices": NO_HISTORY,
    "GET /api/jobs": "200 401 200 200A 200AR",
    "POST /api/jobs": ("401 401 403 403 403", {"command": ["true"]}),
    "GET /api/jobs/{job}": "200 401 404 200A 200R",
    "POST /api/jobs/{job}/cancel": "401 401 404 200 200",
    "POST /api/jobs/{job}/hold": "401 401 404 200 409",
    "GET /api/jobs/{job}/log": "403 401 404 200A 200",
    "POST /api/jobs/{job}/move": "401 401 404 200 409",
    "POST /api/jobs/{job}/requeue": "401 401 404 200 409",
    "POST /api/jobs/{job}/resume": "401 401 404 200 200",
    "POST /api/jobs/{job}/retry": "401 401 404 200 200",
    "GET /api/leases": READ,
    "POST /api/leases": ("401 401 403 403 409", {"gpus": 99, "seconds": 600}),
    "DELETE /api/leases/{lease}": KEY,
    "POST /api/leases/{lease}/renew": (KEY, {"seconds": 600, "fence": 1}),
    "POST /api/links": (ROOT, {}),
    "GET /api/nodes": READ,
    "POST /api/nodes": ("401 401 403 403 404", {"name": "n17"}),
    "DELETE /api/nodes/{name}": "401 401 403 403 404",
    "POST /api/nodes/{name}/drain": "401 401 403 403 404",
    "POST /api/nodes/{name}/resume": "401 401 403 403 404",
    "GET /api/processes": OWN,
    f"GET /api/proof?nonce={'0' * 64}": OPEN,
    "GET /api/recent": READ,
    "GET /api/runs": OWN,
    "GET /api/run-courses?runs=x": READ,
    "GET /api/runs/{run}": "404 401 404 200A 200A",
    "GET /api/runs/{run}/events": "404 401 404 200 200",
    "GET /api/runs/{run}/record": "403 401 404 200A 200A",
    "DELETE /api/session": "401 401 200 200 404",
    "GET /api/session": OPEN,
    "POST /api/session": ("401 401 401 401 401", {"code": "x"}),
    "DELETE /api/sessions": "401 401 200 200 200",
    "GET /api/silences": READ,
    "POST /api/silences": ("401 401 200 200 200", {"seconds": 60, "rule": "fan"}),
    "DELETE /api/silences/{silence}": KEY,
    "GET /api/snapshot": OWN,
    "GET /api/snapshots": OWN,
    "GET /api/system": READ,
    "GET /api/tokens": "403 401 403 403 404",
    "POST /api/tokens": ("401 401 403 403 404", {"name": "ops", "role": "read"}),
    "DELETE /api/tokens/{name}": "401 401 403 403 404",
    "GET /api/topology": READ,
    "GET /api/usage": NO_HISTORY,
    "GET /healthz": OPEN,
    "GET /metrics": READ,
    "GET /api/jobs/{job}?user=alice": "403 401 403 200A 200A",
    "GET /api/jobs/{job}/log?user=alice": "403 401 403 200A 200A",
    "POST /api/jobs/{job}/cancel?user=alice": "401 401 403 200 403",
    "GET /api/jobs?user=alice": "403 401 403 200A 200A",
    "DELETE /api/sessions?everyone=true": ROOT,
}
"""What each of ROLES gets, and whose secrets are in it; with the body of the request."""


def users_files(folder: Path) -> tuple[Users, Told]:
    """alice's jobs and runs, as her reader tells them."""
    secret = SECRETS["A"]
    path = write_record(
        folder / "a.jsonl", begin(id=RUN, name=secret, command=secret), sample(1), end()
    )
    row = replace(row_at(path), user="alice")
    shown = runs_of([row])
    view = JobView(1, "1", secret, JobState.WAITING, secret, "/", "alice", BEGAN, "1")
    told = Told(
        jobs=jobs_told(view),
        job=view_to_json(view),
        log={"job": 1, "attempt": 1, "start": 0, "end": 9, "text": secret, "ended": True},
        act={"job": 1, "outcome": "done", "note": None},
        runs={"seen": "1", "rows": [row_to_json(row)]},
        run=to_json(shown.details(ALL_SEEING, RUN)),
        marks=to_json(shown.marks(ALL_SEEING, RUN)),
        news=to_json(shown.news(RUN, [ALL_SEEING])[0].updates[ALL_SEEING]),
        record={"size": len(secret), "name": "a.jsonl"},
        piece={"piece": base64.b64encode(secret.encode()).decode()},
    )
    told.answers = json.loads(json.dumps(told.answers))
    none = Gone("there is no such job")
    empty = Told(jobs=jobs_told(), job=none, log=none, act=none, runs={"seen": "1", "rows": []})
    return Users(alice=(1234, told), dora=(1235, empty)), told


def farm() -> Snapshot:
    """A node where alice's command line is known."""
    plain = drawn.farm()
    first = plain.devices[0]
    processes = tuple(
        replace(one, command=SECRETS["A"] if one.user == "alice" else None)
        for one in first.processes
    )
    others = [replace(one, processes=()) for one in plain.devices[1:]]
    return replace(plain, devices=(replace(first, processes=processes), *others))


@contextmanager
def machine(folder: Path, outside: bool = False) -> Iterator[tuple[Parts, Told]]:
    """A server of root with alice and dora; root has one job."""
    folder.mkdir(exist_ok=True)
    users, told = users_files(folder)
    for one in users.known():
        one._monotonic = itertools.count().__next__  # nothing is taken for fresh
    runs = ServerRuns(lambda: FoundRuns(), "of root", users=users)
    jobs = one_job(folder / "jobs", users, SECRETS["R"])
    parts = Parts(folder, [farm()], OUTSIDE if outside else HOME, runs=runs, jobs=jobs)
    try:
        yield parts, told
    finally:
        parts.close()


def key_of(parts: Parts, who: Identity) -> dict[str, str]:
    return {"Authorization": f"Bearer {parts.keys.exchange(parts.keys.new_code(who))}"}


def seen(status: int, text: str) -> str:
    """`200A`: the status, and whose secrets are in the answer."""
    return str(status) + "".join(one for one, secret in SECRETS.items() if secret in text)


def asked(route: str, callers: dict[str, tuple[Caller, dict[str, str]]]) -> str:
    method, path = route.split(" ")
    path = re.sub(r"{(\w+)}", lambda name: NAMES.get(name[1], "x"), path)
    found = ROUTES[route]
    more = {} if isinstance(found, str) else {"json": found[1]}
    out = []
    for role in ROLES:
        caller, headers = callers[role]
        answer = caller.request(method, path, headers=headers, **more)
        out.append(seen(answer.status_code, answer.text))
    return " ".join(out)


def test_every_route_for_every_role(tmp_path: Path) -> None:
    described = json.loads((REPOSITORY / "frontend/openapi.json").read_text())["paths"]
    routes = {
        f"{method.upper()} {path}" for path, methods in described.items() for method in methods
    }
    assert {re.sub(r"\?.*", "", route) for route in ROUTES} == routes, "a route has no row"
    wrong = list[str]()
    with machine(tmp_path / "here") as (parts, _), machine(tmp_path / "out", True) as (outside, _):
        home = Caller(parts.app, "127.0.0.1", "localhost")
        for route, found in ROUTES.items():
            callers: dict[str, tuple[Caller, dict[str, str]]] = {
                "anonymous here": (home, {}),
                "anonymous elsewhere": (Caller(outside.app, "10.0.0.7", "node17"), {}),
                "another user": (home, key_of(parts, DORA)),
                "the owner": (home, key_of(parts, ALICE)),
                "token": (home, BEARER),
            }
            expected = found if isinstance(found, str) else found[0]
            if (got := asked(route, callers)) != expected:
                wrong.append(f"{route}: {got}, not {expected}")
    assert not wrong, "\n".join(wrong)


LOCAL_ROLES: dict[Identity | None, int] = {None: 0, DORA: 2, ALICE: 3}
"""Whom the kernel names at the local socket, and their column: without sign-in there is no one."""


def test_the_local_socket_answers_each_role_as_rest_does(tmp_path: Path) -> None:
    wrong, paths = list[str](), set[str]()
    with machine(tmp_path / "here") as (parts, _), machine(tmp_path / "out", True) as (outside, _):
        calls, elsewhere = LocalCalls(parts.app), LocalCalls(outside.app)
        for route, found in ROUTES.items():
            method, path = route.split(" ")
            path = re.sub(r"{(\w+)}", lambda name: NAMES.get(name[1], "x"), path)
            if method != "GET" or not is_answered(path):
                continue
            assert isinstance(found, str)
            paths.add(path)
            for who, column in LOCAL_ROLES.items():
                got = at_the_socket(calls, who, path)
                if got != found.split()[column]:
                    wrong.append(f"{who}: {path}: {got}, not {found}")
            assert at_the_socket(elsewhere, None, path) == "401"
            assert at_the_socket(elsewhere, DORA, path) == found.split()[2]
    assert not wrong, "\n".join(wrong)
    assert {"/api/snapshot", "/api/leases", "/api/alerts", "/api/board"} < paths


def at_the_socket(calls: LocalCalls, who: Identity | None, path: str) -> str:
    (found,) = asyncio.run(calls._answers(who, [path], 60.0))
    return seen(found.status, found.body.decode())


EVENTS = {  # whether each of LIVE_ROLES hears it, and whose secrets are in it; "-" for silence
    "snapshot": ". . A A",
    "gpu_status": ". . . .",
    "gpu_status_update": ". . . .",
    "high_gpu_usage_alert": ". . . .",
    "alert": ". . A A",
    "leases": ". . . .",
    "job": "- - A A",
    "runs": "- - . .",
    "run": "- - . .",
}
LIVE_ROLES = ("anonymous here", "another user", "the owner", "token")


def test_every_live_event_for_every_role(tmp_path: Path) -> None:
    sources = (REPOSITORY / "src/andon/web/live").glob("*.py")
    emitted = {name for one in sources for name in re.findall(r'emit\("(\w+)"', one.read_text())}
    assert emitted == set(EVENTS), "a live event has no row"
    with machine(tmp_path / "here") as (parts, told):
        heard = asyncio.run(listened(parts, told))
    found = {
        event: " ".join(_marks(heard[role].get(event)) for role in LIVE_ROLES) for event in EVENTS
    }
    assert found == EVENTS


def _marks(text: str | None) -> str:
    if text is None:
        return "-"
    return "".join(one for one, secret in SECRETS.items() if secret in text) or "."


async def listened(parts: Parts, told: Told) -> dict[str, dict[str, str]]:
    """What each role hears while everything changes."""
    live, heard = live_of(parts), dict[str, dict[str, str]]()
    assert live._runs is not None
    live._runs._clock = itertools.count(step=10.0).__next__  # its list is due every time
    keys = {"another user": DORA, "the owner": ALICE}
    async with live.run():
        sockets = dict[str, WebSocket]()
        for role in LIVE_ROLES:
            secret = TOKEN if role == "token" else None
            if role in keys:
                secret = parts.keys.exchange(parts.keys.new_code(keys[role]))
            sockets[role] = WebSocket(parts.app)
            await sockets[role].joined(json.dumps({} if secret is None else {"token": secret}))
            heard[role] = {}
            for number, what in enumerate(("snapshot", "jobs", "runs", f"run {RUN}"), 10):
                sockets[role].send(f'42{number}["subscribe",{json.dumps(what)}]')
                while not (packet := await sockets[role].heard("4")).startswith(f"43{number}"):
                    _keep(heard[role], packet)
        changing = asyncio.create_task(_change_everything(parts, told))
        for role in reversed(LIVE_ROLES):  # whoever hears all comes first: then all was sent
            socket = sockets[role]
            socket.send('42["request_gpu_update"]')
            while not (heard[role].keys() >= _heard_by(role) and socket.is_drained):
                _keep(heard[role], await socket.heard("42["))
        changing.cancel()
    return heard


async def _change_everything(parts: Parts, told: Told) -> None:
    """A job and a run of alice change again and again, with alerts, leases and snapshots."""
    live, snapshot, rounds = live_of(parts), farm(), 0
    jobs, runs = (cast("dict[str, Any]", told.answers[name]) for name in ("jobs", "runs"))
    while True:
        rounds += 1
        seen = {"seen": str(rounds)}
        told.answers["jobs"] = {**jobs, **seen, "views": [{**jobs["views"][0], "attempts": rounds}]}
        told.answers["runs"] = {**runs, **seen, "rows": runs["rows"] if rounds % 2 else []}
        live._alerted(tuple(parts.watcher.alerts()))
        live._leased(parts.lender.listed())
        live._arrived(replace(snapshot, at=snapshot.at + rounds))
        await asyncio.sleep(0.2)  # the rounds of the server take their time


def _heard_by(role: str) -> set[str]:
    place = LIVE_ROLES.index(role)
    return {event for event, marks in EVENTS.items() if marks.split()[place] != "-"}


def _keep(heard: dict[str, str], packet: str) -> None:
    if packet.startswith("42["):
        name, *rest = json.loads(packet[2:])
        heard[name] = heard.get(name, "") + json.dumps(rest)
