"""Servers under test: started for each combination, loaded, stopped; one that fails is one row."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from andon.jobs.folder import JobsFolder
from andon.jobs.queue import Queue
from tests.integration.conftest import andon
from tests.integration.queueing import cleaned, settle
from tests.support.waiting import wait_for

pytestmark = pytest.mark.timeout(150)
SERVER = r"""
import os, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, batch, place = int(sys.argv[1]), sys.argv[2], sys.argv[3]
open(f"{place}/{batch}.pid", "w").write(str(os.getpid()))
if batch == "64" and not os.path.exists(f"{place}/larger"):
    sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB.")

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"choices": [{"text": "word"}], "usage": {"completion_tokens": 3}}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass

ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobsFolder]:
    made = settle(monkeypatch, tmp_path)
    (tmp_path / "serve.py").write_text(SERVER)
    with cleaned(made):
        yield made


def written(place: Path, batches: list[int]) -> str:
    path = place / "bench.json"
    command = [sys.executable, "serve.py", "{port}", "{batch}", str(place)]
    load = {"model": "m", "concurrency": [1, 2], "requests": 3, "stream": False}
    document = {
        "name": "serving",
        "simulate": 2,
        "server": {"command": command, "ready_timeout": "60s"},
        "load": [load],
        "parameters": {"batch": batches},
    }
    path.write_text(json.dumps(document))
    return str(path)


def test_each_combination_is_tried_a_failure_is_a_row_and_resume_runs_what_is_missing(
    folder: JobsFolder, tmp_path: Path
) -> None:
    said = andon("benchmark", written(tmp_path, [8, 64]))
    assert said.code == 1, said.err  # the worst of the jobs
    assert "0 of 1 (1 OOM)" in said.out
    assert "Best" in andon("runs", "report", "--group", "serving", "--slo", "end-to-end=60s").out
    found = andon("runs", "compare", "--group", "serving", "--json").json()
    assert [row["params"] for row in found["rows"]] == [
        {"batch": 8, "concurrency": 1},
        {"batch": 8, "concurrency": 2},
        {"batch": 64, "concurrency": None},
    ]
    assert "the server ended before it was ready" in andon("logs", "serving").out
    pid = int((tmp_path / "8.pid").read_text())
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    (tmp_path / "larger").touch()
    assert andon("benchmark", "--resume", "serving").code == 0
    attempts = [facts.last.number for facts in Queue(folder).jobs.values() if facts.last]
    assert attempts == [1, 2]  # the first was not run again


def test_a_trial_that_is_killed_or_cancelled_leaves_no_server(
    folder: JobsFolder, tmp_path: Path
) -> None:
    path = Path(written(tmp_path, [8, 16]))
    text = path.read_text().replace('"requests": 3', '"seconds": 600')
    path.write_text(text)
    assert andon("submit", str(path)).code == 0
    pids = [tmp_path / f"{batch}.pid" for batch in (8, 16)]
    wait_for(lambda: all(one.exists() and one.read_text() for one in pids), seconds=60)
    trial = int(Path(f"/proc/{pids[0].read_text()}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(trial, signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{pids[0].read_text()}").exists())
    assert andon("cancel", "serving").code == 0
    for one in pids:
        wait_for(lambda one=one: not os.path.exists(f"/proc/{one.read_text()}"))  # type: ignore[misc]  # noqa: PTH110
