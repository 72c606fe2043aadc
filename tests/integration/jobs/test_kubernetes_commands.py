"""Commands of a person with a kubeconfig, on a stand-in cluster whose nodes report to a hub."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.fleet.rules.states import NodeList, NodeRow, NodeState, list_to_text
from andon.history.rules.series import Bucket
from andon.model.run.record import RunDevice
from andon.model.shapes import to_json
from andon.model.wire import snapshot_to_json
from tests.conftest import need
from tests.integration.serving import make_certificate
from tests.standin.kubernetes.standin import KubernetesStandin
from tests.support.homes import own_folders
from tests.support.snapshots import farm, h200, work

SECONDS = 120
NO_RUN = {"error": {"reason": "there is no such run", "hint": ""}}


class FakeHub:
    """The routes of a hub that a cluster asks: g1 is busy and has an idle notebook, g2 idle."""

    def __init__(self) -> None:
        outer = self
        self.recorded = True
        """Whether the agents of its nodes record jobs."""

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                known = outer.recorded or "/runs/" not in path
                body = json.dumps(outer.answer(path) if known else NO_RUN).encode()
                self.send_response(200 if known else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def answer(self, path: str) -> object:
        now = time.time()
        if path.endswith("/snapshot"):
            notebook = replace(work(9, "bob", "python", 2.0), container="k8s:team-a/notebook-7/c")
            many = 3 if "/g1/" in path else 0
            idle = [replace(h200(place), processes=(notebook,)) for place in range(many)]
            return snapshot_to_json(replace(farm(), devices=tuple(idle), at=now))
        if "/runs/" in path:
            return {"devices": to_json([RunDevice("GPU-7", 7, "7", "H100", 80 << 30)])}
        if path.endswith("/history"):
            buckets = [
                Bucket(now - 9000, now - 7200, 5, 0, 10, 50),
                Bucket(now - 7200, now, 5, 0, 0, 0),
            ]
            return {"buckets": to_json(buckets)}
        rows = (
            NodeRow("g1", NodeState.HEALTHY, 1.0, 8, 0, 31.0, 44.0, models={"H100": 8}),
            NodeRow("g2", NodeState.HEALTHY, 1.0, 8, 0, 4.0, 6.0, models={"H100": 8}),
        )
        return json.loads(list_to_text(NodeList(now, True, rows)))


class Person:
    """Someone at a terminal with a kubeconfig."""

    def __init__(self, folder: Path, config: Path, hub: FakeHub) -> None:
        self.hub = hub
        self._env = {**os.environ, **own_folders(folder), "KUBECONFIG": str(config)}
        self._env |= {"COLUMNS": "150", "ANDON_CONFIG": str(folder / "andon.toml")}
        table = f'[clusters.k8s]\nkind = "k8s"\ntimeout = 60\nhub = "{hub.url}"\n'
        (folder / "andon.toml").write_text(table)

    def andon(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "andon.cli", *words],
            capture_output=True, text=True, timeout=SECONDS, env=self._env,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandin]:
    need("kubectl")
    found = KubernetesStandin(
        certificate=make_certificate(tmp_path_factory.mktemp("certificate"))[0]
    )
    found.node("g1", 8)
    found.node("g2", 8)
    found.namespace("team-a")
    found.pod("notebook-7", "g1", 8, "team-a")
    found.pod("other", "g2", 4, "team-a")
    yield found
    found.close()


@pytest.fixture(scope="module")
def person(
    standin: KubernetesStandin, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Person]:
    hub, folder = FakeHub(), tmp_path_factory.mktemp("person")
    assert standin.api.certificate is not None
    config = standin.kubeconfig(folder, standin.api.certificate)
    yield Person(folder, config, hub)
    hub.server.shutdown()
    hub.server.server_close()


def test_nodes_say_what_is_free_and_who_leaves_gpus_idle(person: Person) -> None:
    first, second = person.andon("nodes", "--on", "k8s").stdout.splitlines()[1:]
    assert first.split()[:5] == ["g1", "8", "H100", "8", "0"]
    assert "ready · 3 GPUs idle for 2 h (team-a/notebook-7)" in first
    assert second.split()[:9] == ["g2", "8", "H100", "4", "4", "4", "%", "6", "%"]


def test_a_job_prefers_the_idle_node_and_is_followed_to_its_end(
    person: Person, standin: KubernetesStandin
) -> None:
    image = ("--gpus", "2", "--image", "pytorch:2.8")
    planned = json.loads(
        person.andon("submit", "--on", "k8s", "--dry-run", *image, "--", "true").stdout
    )
    assert planned["spec"]["parallelism"] == 0
    assert not standin.objects.select("jobs")
    script = "echo begun; sleep 1; echo done"
    done = person.andon("submit", "--on", "k8s", *image, "--", "sh", "-c", script)
    job = done.stdout.strip()
    assert job.startswith("k8s:default/andon-a")
    assert "prefers g2: 4 free, really idle" in done.stderr
    assert person.andon("logs", job, "-f").stdout == "begun\ndone\n"
    shown = json.loads(person.andon("jobs", "--json").stdout)
    (row,) = [one for one in shown["jobs"] if one["label"] == job]
    assert (row["state"], row["where"], row["exit_code"]) == ("succeeded", "g2", 0)
    (record,) = json.loads(person.andon("runs", "--json").stdout)["runs"]
    assert record["id"] == row["run"]
    assert (record["node"], record["exit_code"], record["params"]["job"]) == ("g2", 0, job)
    assert [one["uuid"] for one in record["devices"]] == ["GPU-7"]
    assert record["samples"] >= 1
    assert record["no_samples_reason"] is None


def test_why_names_what_is_free_and_cancel_ends_it(person: Person) -> None:
    words = ("submit", "--on", "k8s", "--gpus", "8", "--image", "x", "--", "true")
    job = person.andon(*words).stdout.strip()
    said = person.andon("why", job).stdout
    assert "no node has 8 free GPUs. g2 has 4; g1's 8 are requested, 3 of them 0 % busy" in said
    assert "by team-a/notebook-7" in said
    assert "ask its owner, or use --gpus 4" in said
    person.andon("cancel", job)
    assert "cancelled" in person.andon("jobs").stdout


def test_run_ends_with_its_code_and_without_an_agent_its_record_says_why_it_is_empty(
    person: Person,
) -> None:
    words = ("run", "--on", "k8s", "--image", "x", "--", "sh", "-c", "echo here; exit 3")
    person.hub.recorded = False
    assert person.andon(*words, code=3).stdout == "here\n"
    (row,) = json.loads(person.andon("runs", "--state", "failed", "--json").stdout)["runs"]
    assert (row["exit_code"], row["samples"]) == (3, 0)
    assert row["no_samples_reason"] == f"no andon agent on {row['node']} recorded it"


def test_what_is_not_there_is_refused_in_words(person: Person) -> None:
    there = ("submit", "--on", "k8s", "--image", "x")
    said = person.andon(*there, "--engine-option=namespace=nowhere", "--", "true", code=2).stderr
    assert 'there is no such namespace: namespaces "nowhere" not found' in said
    assert (
        "does not take --begin" in person.andon(*there, "--begin", "2h", "--", "x", code=2).stderr
    )
    assert "k8s knows no job" in person.andon("logs", "k8s:default/none", code=5).stderr
