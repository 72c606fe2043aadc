"""What every role gets of every route and live event of a real server, asked by HTTP alone:
`python -m tests.support.server_matrix KIND` as root of a machine of its own, which prints it."""

import itertools
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import socketio

from tests.support.notices import HOT
from tests.support.role_servers import NODE, RUN, SECRETS, SERVERS, RoleServer, people
from tests.support.waiting import wait_for

LIVE: Mapping[str, Mapping[str, str]] = {
    "root": {
        "snapshot": ". . . .",
        "gpu_status": ". . . .",
        "gpu_status_update": ". . . .",
        "alert": ". . . .",
        "leases": ". . . .",
        "job": "- - A A",
        "runs": "- - . .",
        "run": "- - . .",
    },
    "replay": {
        "snapshot": ". . . A",
        "gpu_status": ". . . .",
        "gpu_status_update": ". . . .",
        "high_gpu_usage_alert": ". . . .",
        "alert": ". . . A",
        "job": "- - - -",
    },
    "outside": {},
    "hub": {
        "snapshot": ". . . . . . .",
        "gpu_status": ". . . . . . .",
        "gpu_status_update": ". . . . . . .",
        "alert": ". . . . . . .",
        "leases": ". . . . . . .",
        "nodes": ". . . . . A A",
        "job": "- - - - - - -",
        "run": "- - - - - - -",
    },
    "demo": {
        "snapshot": ". .",
        "gpu_status": ". .",
        "gpu_status_update": ". .",
        "run": ". .",
    },
}
"""Who hears what, by the roles of each server without `forwarded`: whose secrets are in it, - for
silence. What may or may not come within a test is left out."""
BODIES: Mapping[str, Any] = {
    "POST /api/alerts/test": {},
    "POST /api/alerts/{alert}/acknowledge": {"by": "x"},
    "PUT /api/devices/{device}/cordon": {"reason": "x"},
    "POST /api/estimate": {"model": "llama-3-8b"},
    "POST /api/history/notes": {"text": "x", "since": 1, "until": 2},
    "POST /api/jobs": {"command": ["true"]},
    "POST /api/leases": {"gpus": 99, "seconds": 600},
    "POST /api/leases/{lease}/renew": {"seconds": 600, "fence": 1},
    "POST /api/links": {},
    "POST /api/nodes": {"name": NODE},
    "POST /api/reservations": {"gpus": 99, "seconds": 600},
    "PATCH /api/reservations/{reservation}": {"seconds": 600},
    "POST /api/session": {"code": "x"},
    "POST /api/silences": {"seconds": 60, "rule": "fan"},
    "POST /api/tokens": {"name": "ops", "role": "read"},
}
QUERIES = {
    "/api/devices/{device}/history": "?metric=power_watts",
    "/api/history/changes": "?device=0",
    "/api/proof": f"?nonce={'0' * 64}",
    "/api/run-courses": "?runs={run}",
}
LAST = ("DELETE /api/session", "DELETE /api/sessions", "DELETE /api/sessions?everyone=true")
"""They end the sessions that are asked with."""
OF_NODE = {"name": "fan", "device": "0", "job": "1", "run": RUN, "alert": HOT.id}
OF_ANOTHER = (
    "GET /api/jobs?user=alice", "GET /api/jobs/{job}?user=alice",
    "GET /api/jobs/{job}/log?user=alice", "POST /api/jobs/{job}/cancel?user=alice",
)  # fmt: skip


def routes(server: RoleServer) -> list[str]:
    """Those of the server's own description, but for those of LAST."""
    role = list(server.keys)[-1]
    described = server.ask(role, "GET", "/openapi.json").json()["paths"]
    found = [
        f"{method.upper()} {path}" for path, methods in described.items() for method in methods
    ]
    return sorted(set(found) - set(LAST))


def matrix(server: RoleServer, asked: list[str], below: str = "") -> dict[str, str]:
    """The status for each role, and whose secrets are in the answer; `below` a node."""
    return {
        route: " ".join(cell(server, role, route, below) for role in server.keys) for route in asked
    }


def cell(server: RoleServer, role: str, route: str, below: str = "") -> str:
    method, path = route.split(" ")
    path += QUERIES.get(path, "")
    if below:
        path = f"{below}{path[4:]}"
    body = BODIES.get(route, {} if method == "POST" else None)
    with _of_node() if below else objects(server, route) as (names, more):
        path = re.sub(r"{(\w+)}", lambda name: names.get(name[1], "x"), path)
        if method == "DELETE" and "fence" in more:
            path, more = f"{path}?fence={more['fence']}", {}
        answer = server.ask(role, method, path, None if body is None else {**body, **more})
    return marked(str(answer.status), answer.body)


def marked(text: str, said: str) -> str:
    return text + "".join(letter for letter, secret in SECRETS.items() if secret in said)


@contextmanager
def objects(server: RoleServer, route: str) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    """What a route that changes something is asked about: alice's, and new for each request, so
    that no answer depends on an earlier one."""
    names = {"name": "fan", "device": "0", **server.names}
    method, path = route.split(" ")
    kind = next((one for one in server.fresh if f"{{{one}}}" in path), "")
    if method == "GET" or not kind:
        yield names, {}
    elif kind == "lease":
        lease, fence = server.lease()
        yield {**names, "lease": lease}, {"fence": fence}
        server.ask("token", "DELETE", f"/api/leases/{lease}?fence={fence}")
    elif kind == "silence":
        yield {**names, "silence": server.silence()}, {}
    elif kind == "alert":
        place = f"/api/alerts/{names['alert']}/acknowledge"
        server.ask("token", "DELETE", place)
        server.ask("alice", "POST", place, {"by": "x"})
        yield names, {}
    else:
        jobs = server.ended if path.endswith("/retry") else server.numbers
        yield {**names, "job": str(next(jobs))}, {}


@contextmanager
def _of_node() -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    yield OF_NODE, {}


def endings(server: RoleServer) -> dict[str, str]:
    """The routes that end sessions, each asked with new ones."""
    found = {}
    for route in LAST:
        own = {**server.keys, **people(server.served)}
        server.keys = {role: own[role] for role in server.keys}
        found[route] = " ".join(cell(server, role, route) for role in server.keys)
    return found


# Live events.


def heard(server: RoleServer, expected: Mapping[str, str]) -> dict[str, str]:
    """Whose secrets are in each live event for each role. Whoever hears much comes last: what the
    others were sent until then has arrived when they are answered once more."""
    seen: dict[str, dict[str, str]] = {role: {} for role in server.keys if role != "forwarded"}
    rows = {event: dict(zip(seen, row.split(), strict=True)) for event, row in expected.items()}

    def all_came() -> bool:
        return all(
            event in seen[role] and set(marks) - {"."} <= set(marked("", seen[role][event]))
            for event, row in rows.items() for role, marks in row.items() if marks != "-"
        )  # fmt: skip

    with ExitStack() as stack:
        clients = [stack.enter_context(_listening(server, role, seen[role])) for role in seen]
        for count in itertools.count():
            server.changes(count)
            if count > 2 and all_came():
                break
            if count > 100:
                break  # the comparison says what is missing
            with suppress(AssertionError):  # the next round changes everything again
                wait_for(all_came, 1)
        for client in clients:
            client.call("subscribe", "snapshot", timeout=60)
    return {event: " ".join(_said(seen[role].get(event)) for role in seen) for event in expected}


@contextmanager
def _listening(server: RoleServer, role: str, seen: dict[str, str]) -> Iterator[socketio.Client]:
    client = socketio.Client(reconnection=False)
    for event in {name for rows in LIVE.values() for name in rows}:
        client.on(event, partial(_keep, seen, event))
    key = server.keys[role]
    client.connect(server.served.url, auth={} if key is None else {"token": key})
    for what in ("snapshot", "jobs", "nodes", "runs", f"run {server.names['run']}"):
        client.call("subscribe", what, timeout=60)
    try:
        yield client
    finally:
        client.disconnect()


def _keep(seen: dict[str, str], event: str, value: object) -> None:
    text = json.dumps(value)
    seen[event] = "".join(s for s in SECRETS.values() if s in text or s in seen.get(event, ""))


def _said(text: str | None) -> str:
    return "-" if text is None else marked("", text) or "."


def main(kind: str) -> None:
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)  # PostgreSQL is another user
    with SERVERS[kind](folder) as server:
        asked, found = routes(server), dict[str, Any]()
        found["roles"] = " ".join(server.keys)
        found["live"] = heard(server, LIVE[kind]) if LIVE[kind] else {}
        if kind == "hub":
            below = [one for one in asked if " /api/" in one and " /api/nodes" not in one]
            found["node"] = matrix(server, below, f"/api/nodes/{NODE}")
        found[kind] = matrix(server, [*asked, *(OF_ANOTHER if kind == "root" else ())])
        if "alice" in server.keys:
            found[kind] |= endings(server)
    print(f"@@matrix\n{json.dumps(found)}\n@@")


if __name__ == "__main__":
    main(sys.argv[1])
