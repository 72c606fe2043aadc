"""Every route at the local socket for every role that the kernel can name: what REST gives it."""

import asyncio
import json
import re
from pathlib import Path

from msgspec.structs import replace

from andon.access.local_rest import is_answered
from andon.access.roles import Identity, Role
from andon.model.device import Snapshot
from andon.web.transport.local_calls import LocalCalls
from tests.conftest import REPOSITORY
from tests.support import snapshots as drawn
from tests.support.web_parts import HOME, OUTSIDE, Caller, Parts

ALICE, DORA = Identity(Role.USER, 1234, "alice"), Identity(Role.USER, 1235, "dora")
ROOT = Identity(Role.OWNER, 0, "root")
NAMES = {"name": "fan", "device": "0"}
SECRET = "alices-secret"


def farm() -> Snapshot:
    """A node where alice's command line is known."""
    plain = drawn.farm()
    devices = tuple(
        replace(
            status,
            processes=tuple(
                replace(one, command=SECRET if one.user == "alice" else None)
                for one in status.processes
            ),
        )
        for status in plain.devices
    )
    return replace(plain, devices=devices)


def answered_paths() -> list[str]:
    described = json.loads((REPOSITORY / "frontend/openapi.json").read_text())["paths"]
    paths = (re.sub(r"{(\w+)}", lambda name: NAMES.get(name[1], "x"), path) for path in described)
    return [path for path in paths if is_answered(path)]


def seen(status: int, text: str) -> tuple[int, bool]:
    return status, SECRET in text


def at_the_socket(parts: Parts, who: Identity | None, path: str) -> tuple[int, bool]:
    (found,) = asyncio.run(LocalCalls(parts.app)._answers(who, [path], 60.0))
    return seen(found.status, found.body.decode())


def over_http(parts: Parts, who: Identity | None, path: str) -> tuple[int, bool]:
    key = None if who is None else parts.keys.exchange(parts.keys.new_code(who))
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    answer = Caller(parts.app, "127.0.0.1", "localhost").request("GET", path, headers=headers)
    return seen(answer.status_code, answer.text)


def test_the_local_socket_answers_each_role_as_rest_does(tmp_path: Path) -> None:
    paths, wrong = answered_paths(), list[str]()
    assert {"/api/snapshot", "/api/snapshots", "/api/leases", "/api/alerts"} < {*paths}
    parts = Parts(tmp_path, [farm()], HOME)
    try:
        for path in paths:
            for who in (None, DORA, ALICE, ROOT):
                local, rest = at_the_socket(parts, who, path), over_http(parts, who, path)
                if local != rest:
                    wrong.append(f"{who}: {path}: {local}, but by REST {rest}")
        users = (None, DORA, ALICE, ROOT)
        shown = [at_the_socket(parts, who, "/api/snapshot") for who in users]
    finally:
        parts.close()
    assert not wrong, "\n".join(wrong)
    assert shown == [(200, False), (200, False), (200, True), (200, True)]


def test_where_everything_needs_a_key_nobody_without_one_is_answered(tmp_path: Path) -> None:
    parts = Parts(tmp_path, [farm()], OUTSIDE)
    try:
        for path in answered_paths():
            assert at_the_socket(parts, None, path) == (401, False)
            assert at_the_socket(parts, DORA, path)[0] != 401
        assert at_the_socket(parts, DORA, "/api/snapshot") == (200, False)
    finally:
        parts.close()
