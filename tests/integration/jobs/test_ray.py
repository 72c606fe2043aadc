"""Ray through its dashboard: the contract of clusters on a stand-in, what it does badly, and what
is no dashboard at all."""

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import SplitResult

import pytest

from andon.cli.show.jobs import render_jobs
from andon.clusters.ray import RayCluster
from andon.clusters.ray.dashboard import RayDashboard
from andon.errors import AndonError, Conflict, Denied, Invalid, Unavailable
from andon.fleet.node_readings import read_nodes
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.rules.cluster_views import view_of
from andon.model.job.facts import JobState
from andon.settings.clusters import ClusterSettings
from andon.testing.cluster_contract import ClusterContract
from tests.integration.serving import make_certificate
from tests.standin.ray import StandInJob, StandInRay
from tests.support.surroundings import anothers

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="jobs are lines of a POSIX shell")

Opened = Callable[[], RayCluster]


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def ray(tmp_path: Path) -> Iterator[StandInRay]:
    made = StandInRay(tmp_path)
    yield made
    made.close()


def opened(address: str, seconds: float = 20.0) -> RayCluster:
    return RayCluster(ClusterSettings("ray", "ray", seconds, {"address": address}))


def test_what_ray_calls_auto_is_the_dashboard_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def connect(self: RayDashboard, place: SplitResult, until: float) -> None:
        asked.append(place.netloc)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(RayDashboard, "_connect", connect)
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with pytest.raises(Unavailable, match="Connection refused"):
        opened("").nodes()
    assert asked == ["127.0.0.1"]


class TestRay(ClusterContract):
    @pytest.fixture
    def reopen(self, ray: StandInRay) -> Opened:
        self._ray, self._url = ray, ray.url
        return lambda: opened(self._url, 2.0 if self._ray.delay else 20.0)

    def away(self) -> AbstractContextManager[object]:
        return self._elsewhere("http://127.0.0.1:9")

    @contextmanager
    def _elsewhere(self, url: str) -> Iterator[None]:
        before, self._url = self._url, url
        yield
        self._url = before

    @contextmanager
    def slow(self) -> Iterator[None]:
        self._ray.delay = 4.0
        yield
        self._ray.delay = 0.0


class Submitting(ClusterContract):
    """Its ways to make a submission."""


make = Submitting()._submission


def test_more_gpus_than_any_node_has_are_refused_at_once(ray: StandInRay) -> None:
    with pytest.raises(Conflict, match="no node has 8 GPUs: the largest has 4") as found:
        opened(ray.url).submit(make("true", gpus=8))
    assert found.value.hint.startswith("--gpus 4, or a placement over nodes")
    assert not [one for one in ray.requests if one.startswith("POST")]


def test_a_submission_that_ray_loses_is_sent_again(ray: StandInRay) -> None:
    ray.loses = 2
    submission = make("true")
    assert opened(ray.url).submit(submission) == f"andon-{submission.label}"
    posts = [one for one in ray.requests if one == "POST /api/jobs/"]
    assert len(posts) == 3
    assert len(ray.jobs) == 1


def test_it_is_placed_where_gpus_are_free_and_idle(ray: StandInRay) -> None:
    cluster = opened(ray.url)
    cluster.submit(make("true", gpus=2))
    ray.gpus_busy = {"7c4e62bb": 80.0, "d36ad525": 1.0}
    cluster.submit(make("true", gpus=2))
    first, second = (job.asked for job in ray.jobs.values())
    assert "entrypoint_resources" not in first, "nothing is known: Ray chooses"
    assert second["entrypoint_resources"] == {"node:192.0.2.3": 0.001}
    ray.gpus_busy = {"7c4e62bb": 80.0, "d36ad525": 70.0}
    cluster.submit(make("true", gpus=2))
    assert "entrypoint_resources" not in list(ray.jobs.values())[-1].asked


def test_an_array_is_a_job_each(ray: StandInRay) -> None:
    cluster = opened(ray.url)
    array = cluster.submit(make("echo $ANDON_ARRAY_INDEX", indices=(3, 7)))
    found = [job for job in cluster.jobs(0.0) if job.array == array]
    assert [job.array_index for job in found] == [3, 7]
    _until(lambda: all(job.state.is_settled for job in cluster.jobs(0.0)))
    assert [cluster.log(job.id, 0, 100).text for job in found] == ["3\n", "7\n"]
    cluster.cancel([array])


def test_the_reason_names_who_has_the_gpus(ray: StandInRay) -> None:
    cluster = opened(ray.url)
    holders = [cluster.submit(make("sleep 100", gpus=gpus)) for gpus in (2, 4)]
    _until(lambda: [j.state for j in cluster.jobs(0.0)] == [JobState.RUNNING] * 2)
    waiting = cluster.submit(make("true", gpus=1))
    desk = ClusterDesk("ray", 20.0, lambda: cluster, partial(read_nodes, ""))
    why, held = desk.reasons(waiting)
    assert why.text == "needs 1 GPU on one node: n1 has 0 free, n2 0"
    assert held.text.startswith(f"6 of 6 GPUs are given out: {holders[1]} 4 (")
    assert [node.who for node in desk.nodes()] == [f"{holders[0]} (2)", f"{holders[1]} (4)"]
    cluster.cancel([waiting])
    found = {job.id: job for job in cluster.jobs(0.0)}[waiting]
    assert (found.state, found.reason) == (JobState.CANCELLED, "stopping: Ray has not confirmed it")


def test_the_record_of_a_job_is_found(ray: StandInRay, tmp_path: Path) -> None:
    cluster = opened(ray.url)
    job = cluster.submit(make("exit 3"))
    _until(lambda: cluster.jobs(0.0)[0].state.is_settled)
    (found,) = ClusterDesk("ray", 20.0, lambda: cluster).latest().jobs
    assert (found.id, found.exit_code) == (job, 3)
    assert found.run is not None
    (record,) = tmp_path.rglob("*.jsonl")
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [one["event"] for one in (lines[0], lines[-1])] == ["begin", "end"]
    assert lines[0]["id"] == found.run
    assert lines[0]["params"]["job"] == f"ray:{job}"


def test_a_token_is_sent_as_rays_own_commands_send_it(
    ray: StandInRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray.token = "a-secret-of-the-lab"
    with pytest.raises(Denied, match="Ray wants a token") as found:
        opened(ray.url).nodes()
    assert "RAY_AUTH_TOKEN" in found.value.hint
    monkeypatch.setenv("RAY_AUTH_TOKEN", "wrong-secret")
    with pytest.raises(Denied, match="Ray refuses this token") as found:
        opened(ray.url).nodes()
    assert "wrong-secret" not in found.value.reason + found.value.hint
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    (tmp_path / "token").write_text("a-secret-of-the-lab\n")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    assert len(opened(ray.url).nodes()) == 2


@pytest.mark.parametrize("address", ["ftp://head", "http://", "http://a b", "http://u@h"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(Invalid, match="is not the address"):
        opened(address).nodes()


def test_without_an_address_it_says_where_to_write_it() -> None:
    with pytest.raises(Invalid) as found:
        opened("").nodes()
    assert "RAY_API_SERVER_ADDRESS" in found.value.hint


ANSWERS = {
    "a page": (200, b"<html>Grafana</html>"),
    "a number": (200, b"7"),
    "broken JSON": (200, b'{"data": '),
    "escapes": (500, b"\x1b]0;evil\x07\x1b[2J"),
    "a redirect": (302, b""),
    "not found": (404, b"404: Not Found"),
    "plain HTTP for HTTPS": (
        400,
        b"The plain HTTP request was sent to HTTPS port",
    ),
    "no end": (200, b""),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_no_dashboard_is_one_clear_line(name: str) -> None:
    status, body = ANSWERS[name]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            if name != "no end":
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            with suppress(OSError):
                while name == "no end":
                    self.wfile.write(bytes(1 << 20))

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        cluster = opened(f"http://127.0.0.1:{server.server_address[1]}", 5.0)
        with pytest.raises(AndonError) as found:
            cluster.nodes()
        assert isinstance(found.value, Unavailable)
        assert found.value.reason.isprintable()
    finally:
        server.shutdown()
        server.server_close()


def test_a_dashboard_behind_tls_asked_without_says_what_to_look_at(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_certificate(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with listener.accept()[0] as connection, suppress(OSError):
                context.wrap_socket(connection, server_side=True)

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(Unavailable) as found:
            opened(f"http://127.0.0.1:{listener.getsockname()[1]}", 5.0).nodes()
    assert "https" in found.value.hint


def test_jobs_of_other_tools_are_left_alone_unless_one_is_named(ray: StandInRay) -> None:
    asked = {"submission_id": "theirs", "entrypoint": "sleep 100", "metadata": {
        "job_name": "\x1b]0;evil\x07mine", "andon_user": "\x1b[2J"}}  # fmt: skip
    ray.jobs["theirs"] = job = StandInJob(asked, ray.folder)
    cluster = opened(ray.url)
    _until(lambda: job.status == "RUNNING")
    own = cluster.submit(make("sleep 100"))
    cluster.cancel([own])
    assert not job.asked_to_stop
    (listed,) = [one for one in cluster.jobs(0.0) if one.id == "theirs"]
    shown = " ".join(line.plain for line in render_jobs([view_of("ray", listed)], time.time(), 120))
    assert shown.isprintable()
    cluster.cancel(["theirs"])
    assert job.asked_to_stop


def test_a_mark_of_another_user_stops_no_job(
    ray: StandInRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray.jobs["andon-a1"] = StandInJob(
        {"submission_id": "andon-a1", "entrypoint": "true", "entrypoint_num_gpus": 99}, tmp_path
    )
    settings = {"address": ray.url, "logs": str(tmp_path)}
    cluster = RayCluster(ClusterSettings("ray", "ray", 20.0, settings))
    (tmp_path / "andon-a1.stopped").write_text("waiting")
    assert cluster.jobs(0.0)[0].state is JobState.CANCELLED
    anothers(monkeypatch, tmp_path / "andon-a1.stopped")
    assert cluster.jobs(0.0)[0].state is JobState.WAITING


def test_the_commands_work_on_it(ray: StandInRay, tmp_path: Path) -> None:
    """As a person types them."""

    def typed(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "andon.cli", *words], capture_output=True, text=True, timeout=60,
            check=False, env={**os.environ, "RAY_API_SERVER_ADDRESS": ray.url, "COLUMNS": "110"},
        )  # fmt: skip

    done = typed("run", "--on", "ray", "--gpus", "1", "--", "sh", "-c", "echo hello; exit 7")
    assert (done.returncode, done.stdout) == (7, "hello\n"), done.stderr
    many = typed("submit", "--on", "ray", "--gpus", "9", "--", "true")
    assert "no node has 9 GPUs: the largest has 4 (n2)" in many.stderr
    after = typed("submit", "--on", "ray", "--after", "ray:andon-x", "--", "true")
    assert "Ray does not take --after" in after.stderr
    shown = typed("nodes", "--on", "ray")
    assert [line.split()[:2] for line in shown.stdout.splitlines()[1:3]] == [
        ["n1", "2"],
        ["n2", "4"],
    ]
    listed = typed("jobs", "--all")
    assert "ray:andon-" in listed.stdout
    assert "failed" in listed.stdout
    ray.gpus_busy = {"7c4e62bb": 80.0, "d36ad525": 1.0}
    dry = typed("submit", "--on", "ray", "--gpus", "4", "--dry-run", "--", "true")
    assert dry.stdout.startswith("POST /api/jobs/\n"), dry.stderr
    assert '"node:192.0.2.3"' not in dry.stdout, "the job of a moment ago may be there"
    assert len(ray.jobs) == 1
    sent = typed("submit", "--on", "ray", "--gpus", "2", "--", "true")
    assert "it is for n2, whose GPUs are free and idle" in sent.stderr


def _until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)
