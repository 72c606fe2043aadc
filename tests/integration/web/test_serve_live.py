"""Live events with real clients: Python's, JavaScript's, one that stalls, and none at all."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any
from urllib.parse import quote

import pytest
import socketio
import websocket
from socketio.exceptions import ConnectionError as Refused

from tests.conftest import need
from tests.integration.parts import wait_until
from tests.integration.serving import READY_SECONDS, Served, serving

EVENTS = ("gpu_status", "gpu_status_update", "high_gpu_usage_alert", "snapshot", "alert")
SCRIPT = """
const { io } = require("socket.io-client");
const [url, token, transports] = process.argv.slice(2);
const socket = io(url, {
  auth: { token }, extraHeaders: { Authorization: `Bearer ${token}` },
  transports: transports.split(","), reconnection: false,
});
const heard = {};
const hear = (name) => (value) => {
  heard[name] = value;
  if (heard.gpu_status && heard.gpu_status_update && heard.snapshot) {
    console.log(JSON.stringify({
      events: Object.keys(heard), transport: socket.io.engine.transport.name,
      gpus: heard.gpu_status.gpus.length, schema: heard.snapshot.schema,
      commands: heard.snapshot.devices.flatMap((d) => d.processes).filter((p) => p.command).length,
    }));
    process.exit(0);
  }
};
for (const name of ["gpu_status", "gpu_status_update", "high_gpu_usage_alert", "snapshot"])
  socket.on(name, hear(name));
socket.on("connect", () => {
  socket.emit("request_gpu_update");
  socket.emit("subscribe", "snapshot", () => {});
});
socket.on("connect_error", (error) => { console.error(error.message); process.exit(1); });
setTimeout(() => { console.error("only", Object.keys(heard)); process.exit(2); }, 20000);
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("home"), "--no-history", simulate=4) as served:
        yield served


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("outside"), "--host", "0.0.0.0", "--no-history") as served:
        yield served


class Heard(Queue[Any]):
    """What a client hears, by event."""

    def next(self) -> Any:
        return self.get(timeout=READY_SECONDS)


@contextmanager
def client(
    served: Served, token: str | None = None, header: bool = False, transport: str = "websocket"
) -> Iterator[tuple[socketio.Client, dict[str, Heard]]]:
    """A client that is connected, and its ears."""
    heard = {name: Heard() for name in EVENTS}
    found = socketio.Client(reconnection=False)
    for name, queue in heard.items():
        found.on(name, queue.put)
    url = f"http://127.0.0.1:{served.port}"
    auth = None if token is None else {"token": token}
    headers = {"Authorization": f"Bearer {token}"} if header else {}
    found.connect(url, headers=headers, auth=auth, transports=[transport], wait_timeout=20)
    try:
        yield found, heard
    finally:
        found.disconnect()
        found.shutdown()


@pytest.mark.parametrize("transport", ["websocket", "polling"])
def test_a_client_is_told_at_once_then_again_and_when_it_asks(home: Served, transport: str) -> None:
    with client(home, transport=transport) as (found, heard):
        first = heard["gpu_status"].next()
        assert (first["gpu_count"], first["simulated"]) == (4, True)
        assert heard["gpu_status_update"].next()["gpu_count"] == 4
        found.emit("request_gpu_update")
        assert heard["gpu_status_update"].next()["gpu_count"] == 4
        assert heard["snapshot"].empty()


def test_a_busy_device_is_told_to_those_who_come(home: Served) -> None:
    with client(home) as (_, heard):
        said = heard["high_gpu_usage_alert"].next()
    assert said["threshold_percent"] == 50
    assert all(gpu["utilization_percent"] > 50 for gpu in said["gpus"])
    assert said["gpus"]


def test_whoever_subscribes_gets_every_snapshot_until_they_have_enough(home: Served) -> None:
    with client(home) as (found, heard):
        assert found.call("subscribe", "snapshot") == {"subscribed": ["snapshot"]}
        first, second = heard["snapshot"].next(), heard["snapshot"].next()
        assert first["schema"] == "andon.snapshot/1"
        assert second["at"] > first["at"]
        assert found.call("unsubscribe", "snapshot") == {"subscribed": []}
        assert "error" in found.call("subscribe", "nonsense")
        assert "error" in found.call("subscribe", {"deep": ["nonsense"]})


@pytest.mark.parametrize("shown", [True, False])
def test_command_lines_come_with_the_token_in_the_greeting(home: Served, shown: bool) -> None:
    with client(home, token=home.token if shown else None) as (found, heard):
        found.call("subscribe", "snapshot")
        devices = heard["snapshot"].next()["devices"]
    commands = [process["command"] for device in devices for process in device["processes"]]
    assert commands
    assert any(commands) == shown


def test_a_change_of_an_alert_is_told_and_command_lines_only_with_the_token(
    tmp_path: Path,
) -> None:
    with serving(
        tmp_path, "--no-history", simulate=2, ANDON_SIMULATE_FAULTS="xid:0@6=79"
    ) as served:
        asked = "/api/alerts?rule=xid&state=firing"
        wait_until(lambda: served.ask(asked).json()["alerts"], "the alert")
        (number,) = [alert["id"] for alert in served.ask(asked).json()["alerts"]]
        with client(served, token=served.token) as (_, mine), client(served) as (_, other):
            mine["gpu_status"].next()
            other["gpu_status"].next()
            served.ask(
                f"/api/alerts/{quote(number, safe='')}/acknowledge", "POST",
                '{"by": "alice"}', Content_Type="application/json", **served.bearer,
            )  # fmt: skip
            told = [_of(heard["alert"], number) for heard in (mine, other)]
    assert [alert["acknowledged"]["by"] for alert in told] == ["alice", "alice"]
    commands = [[party["command"] for party in alert["affected"]] for alert in told]
    assert any(commands[0])
    assert commands[1]
    assert not any(commands[1])


def _of(heard: Heard, number: str) -> Any:
    """The next word about this alert; others may come and go meanwhile."""
    while (alert := heard.next())["id"] != number:
        pass
    return alert


def test_a_wrong_token_in_the_greeting_is_refused(home: Served) -> None:
    with pytest.raises(Refused), client(home, token="wrong"):
        pass


@pytest.mark.parametrize("transport", ["websocket", "polling"])
def test_another_address_needs_the_token(outside: Served, transport: str) -> None:
    with pytest.raises(Refused), client(outside, transport=transport):
        pass
    with client(outside, outside.token, header=True, transport=transport) as (_, heard):
        assert heard["gpu_status"].next()["gpu_count"] == 2


def test_sampling_goes_on_with_nobody_connected(home: Served) -> None:
    before = home.ask("/api/health").json()["sampler"]["snapshots"]
    wait_until(
        lambda: home.ask("/api/health").json()["sampler"]["snapshots"] >= before + 2,
        "the next ticks",
    )


def test_a_client_that_stalls_is_dropped_and_the_others_go_on(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-history", simulate=64) as served, client(served) as (found, heard):
        found.call("subscribe", "snapshot")
        with _stalled(served) as stalled:
            wait_until(lambda: _flooded(served, stalled), "the end of the slow client")
        first = heard["snapshot"].next()["at"]  # at once; that of a tick may be the same
        assert max(heard["snapshot"].next()["at"] for _ in range(2)) > first
        said = served.ask("/api/health").json()
        assert said["live"]["dropped"] == 1
        assert said["live"]["clients"] == 1
        assert said["sampler"]["state"] == "ok"


@contextmanager
def _stalled(served: Served) -> Iterator[websocket.WebSocket]:
    """A client that asks, and never reads an answer."""
    small = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)]
    found = websocket.create_connection(
        f"ws://127.0.0.1:{served.port}/socket.io/?EIO=4&transport=websocket",
        sockopt=small,
        timeout=READY_SECONDS,
    )
    found.recv()  # the library's greeting
    found.send("40")
    try:
        yield found
    finally:
        found.shutdown()  # type: ignore[no-untyped-call]


def _flooded(served: Served, stalled: websocket.WebSocket) -> bool:
    try:
        for _ in range(50):
            stalled.send('42["request_gpu_update"]')
    except (OSError, websocket.WebSocketException):
        pass  # cut off, as it should be
    return bool(served.ask("/api/health").json()["live"]["dropped"] == 1)


@pytest.fixture(scope="module")
def javascript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The JavaScript client, from npm."""
    need("node", "npm")
    folder = tmp_path_factory.mktemp("javascript")
    command = ["npm", "install", "--no-audit", "--no-fund", "--silent", "socket.io-client@4"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        pytest.skip(f"npm cannot install socket.io-client: {done.stderr[-200:]}")
    (folder / "listen.js").write_text(SCRIPT)
    return folder


@pytest.mark.parametrize("transports", ["polling", "websocket", "polling,websocket"])
@pytest.mark.parametrize("where", ["home", "outside"])
def test_the_javascript_client_hears_the_same(
    javascript: Path, request: pytest.FixtureRequest, where: str, transports: str
) -> None:
    served: Served = request.getfixturevalue(where)
    url = f"http://127.0.0.1:{served.port}"
    node = shutil.which("node") or "node"
    done = subprocess.run(
        [node, "listen.js", url, served.token, transports],
        cwd=javascript, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert {"gpu_status", "gpu_status_update", "snapshot"} <= set(said["events"])
    assert said["schema"] == "andon.snapshot/1"
    assert said["commands"] > 0
    assert said["gpus"] == (4 if where == "home" else 2)


def test_the_javascript_client_is_refused_without_the_token(
    javascript: Path, outside: Served
) -> None:
    node = shutil.which("node") or "node"
    command = [node, "listen.js", f"http://127.0.0.1:{outside.port}", "wrong", "polling,websocket"]
    done = subprocess.run(command, cwd=javascript, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
