"""The commands that read a server: its history, its restarts, its version."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from andon.version import __version__
from tests.integration.parts import free_port, wait_until
from tests.integration.serving import Served, andon, serving


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that writes its history to a file, which the tests can read beside it."""
    state = tmp_path_factory.mktemp("home")
    with serving(state, ANDON_HISTORY=file(state), ANDON_HISTORY_FLUSH="0.2") as served:
        yield served


@pytest.fixture(scope="module")
def span(home: Served) -> tuple[str, ...]:
    """A time of which everything is written: ticks are written in their order."""
    wait_until(lambda: written(home) >= 3, "three ticks")
    now = datetime.now(UTC)
    before = written(home)
    wait_until(lambda: written(home) >= before + 3, "three more")
    return "--since", (now - timedelta(minutes=1)).isoformat(), "--until", now.isoformat()


def file(state: Path) -> str:
    return str(state / "history.db")


def written(served: Served) -> int:
    return int(served.ask("/api/health").json()["store"]["written_snapshots"])


@pytest.mark.parametrize(
    "asked",
    [("--json",), ("1", "--csv"), ("host", "--json"), ("0", "-m", "power_watts", "--jsonl"),
     ("-n", "20", "--json")],
)  # fmt: skip
def test_a_servers_history_is_what_its_file_says(
    home: Served, span: tuple[str, ...], asked: tuple[str, ...]
) -> None:
    there = andon(home.state, "history", *asked, *span, "--url", home.url)
    here = andon(home.state, "history", *asked, *span, ANDON_HISTORY=file(home.state))
    assert there.code == 0, there.err
    assert there.out == here.out
    assert len(there.out) > 100


def test_who_was_there_is_what_the_file_says(home: Served, span: tuple[str, ...]) -> None:
    asked = ("history", "--who", "0", "--json", *span)
    there = andon(home.state, *asked, "--url", home.url).json()["usage"]
    here = andon(home.state, *asked, ANDON_HISTORY=file(home.state)).json()["usage"]
    growing = {"last": None, "peak_memory_bytes": None}  # they are there still
    assert there
    assert [use | growing for use in there] == [use | growing for use in here]


def test_a_servers_history_is_drawn_and_marked_as_simulated(home: Served) -> None:
    drawn = andon(home.state, "history", "--since", "1m", "--url", home.url)
    assert drawn.code == 0, drawn.err
    assert "SIMULATED" in drawn.out
    who = andon(home.state, "history", "--who", "--since", "1m", "--url", home.url)
    assert who.out.startswith("GPU")
    assert "now" in who.out


def test_who_of_simulated_devices_has_the_past_of_the_simulated_server(home: Served) -> None:
    simulated = ("--simulate", "2", "--since", "1h", "--json")
    there = andon(home.state, "who", "--url", home.url, "--since", "1h", "--json").json()
    here = andon(home.state, "who", *simulated).json()
    known = {row["user"] for row in there["users"] if row["device_seconds"] is not None}
    assert known
    assert known == {row["user"] for row in here["users"] if row["device_seconds"] is not None}


def test_the_links_of_a_servers_devices_are_shown(home: Served) -> None:
    done = andon(home.state, "devices", "1", "--topology", "--json", "--url", home.url)
    assert done.code == 0, done.err
    [device] = done.json()["devices"]
    assert (device["label"], device["cpus"]) == ("1", None)
    assert device["missing"]["cpus"] != "not asked for"


def test_a_device_without_a_past_and_a_wrong_question_are_told(home: Served) -> None:
    assert andon(home.state, "history", "99", "--url", home.url).code == 5
    assert andon(home.state, "history", "-n", "20000", "--url", home.url).code == 2
    assert andon(home.state, "history", "--simulate", "1", "--url", home.url).code == 2


def test_a_server_without_history_says_so(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-history", simulate=1) as served:
        for more in ((), ("--who",)):
            done = andon(tmp_path, "history", *more, "--url", served.url)
            assert done.code == 3
            assert "history is disabled" in done.err


def test_watching_goes_on_when_the_server_comes_back(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "andon.cli", "watch", "--format", "jsonl", "-i", "200ms",
               "--url", f"http://127.0.0.1:{port}"]  # fmt: skip
    with serving(tmp_path, "--no-history", simulate=1, port=port) as first:
        watching = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
        )  # fmt: skip
        assert watching.stdout is not None
        assert watching.stderr is not None
        before = json.loads(watching.stdout.readline())["at"]
        first.process.kill()
        away = watching.stderr.readline()
        assert "cannot be reached" in away
        assert "retrying" in away
    with serving(tmp_path, "--no-history", simulate=1, port=port):
        assert "is responding again" in watching.stderr.readline()
        while json.loads(watching.stdout.readline())["at"] <= before:
            pass
    watching.send_signal(signal.SIGINT)
    _, rest = watching.communicate(timeout=120)
    assert watching.returncode == 0
    assert rest.count("\n") <= 1, "the second end is told once"


def test_watching_a_server_that_is_not_there_ends_at_once(tmp_path: Path) -> None:
    done = andon(tmp_path, "watch", "--url", f"http://127.0.0.1:{free_port()}")
    assert done.code == 3
    assert "cannot be reached" in done.err
    assert "hint:" in done.err


class _Future(BaseHTTPRequestHandler):
    """A server of a later version, which has other routes and another schema."""

    def do_GET(self) -> None:
        known = {"/api/health": {"version": "9.1"}, "/api/snapshot": {"schema": "andon.snapshot/9"}}
        gone = {"reason": f"not found: {self.path}", "hint": "look elsewhere"}
        said: object = known.get(self.path) or {"error": gone}
        self.send_response(200 if self.path in known else 404)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the parent's name)
        pass


@pytest.mark.parametrize("command", [("status",), ("watch", "-n", "1"), ("why",), ("history",)])
def test_a_server_of_another_version_is_named_with_both_versions(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    with HTTPServer(("127.0.0.1", 0), _Future) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = andon(tmp_path, *command, "--url", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert done.code == 3
    assert "runs andon 9.1" in done.err
    assert f"this is andon {__version__}" in done.err
    assert "upgrade the older" in done.err
