"""What jobs of every desk do alike."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from andon.clusters.kubernetes.rules.failures import of_kubectl
from tests.conftest import need
from tests.integration.jobs.kubernetes_person import FakeHub, Person
from tests.integration.serving import make_certificate, serving
from tests.integration.slurm import Login
from tests.standin import StandIn
from tests.standin.kubernetes.standin import KubernetesStandin
from tests.standin.ray import StandInRay
from tests.support.homes import own_folders
from tests.support.waiting import wait_for

pytestmark = pytest.mark.process

GONE = "http://127.0.0.1:9"
SECONDS = 20  # a command that has not ended by then does not end


class SilentLogs(StandInRay):
    """A Ray whose driver node has lost its agent: its logs are errors."""

    def _log(self, handler: BaseHTTPRequestHandler, stays: bool, asked: dict[str, Any]) -> None:
        self._send(handler, 500, "Agent for node not found")


@pytest.fixture
def ray(tmp_path: Path) -> Iterator[StandInRay]:
    made = SilentLogs(tmp_path)
    yield made
    made.close()


def andon(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    surroundings = {**os.environ, **own_folders(folder), **more}
    try:
        return subprocess.run(
            [sys.executable, "-P", "-m", "andon.cli", *words], capture_output=True, text=True,
            timeout=SECONDS, env=surroundings, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", "it has not ended")


def test_a_known_end_stays_known_without_the_address(ray: StandInRay, tmp_path: Path) -> None:
    there = {"RAY_API_SERVER_ADDRESS": ray.url}
    job = andon(tmp_path, "submit", "--on", "ray", "--", "false", **there).stdout.strip()

    def state(**more: str) -> str:
        listed = json.loads(andon(tmp_path, "jobs", "--all", "--json", **more).stdout)["jobs"]
        (found,) = (str(one["state"]) for one in listed if one["label"] == job)
        return found

    wait_for(lambda: state(**there) == "failed", 30)
    assert state() == "failed"


def test_run_ends_on_a_final_state_whatever_the_log_does(ray: StandInRay, tmp_path: Path) -> None:
    words = ("run", "--on", "ray", "--", "sh", "-c", "exit 9")
    done = andon(tmp_path, *words, RAY_API_SERVER_ADDRESS=ray.url)
    assert done.returncode == 9, done.stderr


@pytest.mark.parametrize("cluster", [("ray",), ("k8s", "--image", "x")], ids=" ".join)
def test_a_preview_needs_no_cluster(cluster: tuple[str, ...], tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none")
    done = andon(tmp_path, "submit", "--dry-run", "--on", *cluster, "--", "true",
                 RAY_API_SERVER_ADDRESS=GONE, KUBECONFIG=nowhere)  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_cluster_by_another_name_is_suggested(tmp_path: Path) -> None:
    done = andon(tmp_path, "submit", "--on", "kubernetes", "--", "true")
    assert "k8s" in done.stderr.partition("did you mean")[2]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("kubectl")
    return make_certificate(tmp_path_factory.mktemp("certificate"))[0]


@pytest.fixture
def kubernetes(certificate: Path) -> Iterator[KubernetesStandin]:
    found = KubernetesStandin(certificate=certificate)
    found.node("g1", 8)
    found.namespace("team-a")
    found.pod("notebook-7", "g1", 8, "team-a")
    yield found
    found.close()


@pytest.fixture
def person(kubernetes: KubernetesStandin, certificate: Path, tmp_path: Path) -> Iterator[Person]:
    hub = FakeHub()
    yield Person(tmp_path, kubernetes.kubeconfig(tmp_path, certificate), hub)
    hub.server.shutdown()
    hub.server.server_close()


def test_a_pod_that_has_just_begun_is_not_idle_for_hours(person: Person) -> None:
    assert "idle for 2 h" not in person.andon("nodes", "--on", "k8s").stdout


def test_why_says_that_no_node_is_large_enough(person: Person) -> None:
    words = ("submit", "--on", "k8s", "--gpus", "16", "--image", "x", "--", "true")
    job = person.andon(*words).stdout.strip()
    assert "no node has 16 GPUs" in person.andon("why", job).stdout


def test_jobs_of_another_context_are_not_shown(
    person: Person, kubernetes: KubernetesStandin, certificate: Path, tmp_path: Path
) -> None:
    job = person.andon("submit", "--on", "k8s", "--image", "x", "--", "true").stdout.strip()
    assert job in person.andon("jobs").stdout
    other = KubernetesStandin(certificate=certificate)
    try:
        kubernetes.kubeconfig(tmp_path, certificate).write_text(
            other.kubeconfig(tmp_path, certificate).read_text()
        )
        assert job not in person.andon("jobs").stdout
    finally:
        other.close()


def test_a_missing_right_is_granted_by_the_lines_of_the_hint() -> None:
    said = 'nodes is forbidden: User "low" cannot list resource "nodes" in API group ""'
    refused = of_kubectl(f"Error from server (Forbidden): {said} at the cluster scope")
    assert "clusterrolebinding" in refused.hint


def test_a_map_on_slurm_has_its_samples_in_the_folder_that_was_named(
    node: StandIn, login: Login
) -> None:
    node.write([replace(one, gpu_utilisation=50) for one in StandIn.devices(8)])
    folder, items = login.folder / "tel", login.folder / "items"
    items.write_text("a\nb\n")
    login.andon("map", "--on", "slurm", "--gpus", "2", "--telemetry-dir", str(folder), "--items",
                str(items), "--", "sh", "-c", "sleep 2; echo {}")  # fmt: skip
    (record,) = folder.glob("*.jsonl")
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    end = lines[-1]
    labels = {one["label"] for one in end["devices"]}  # they joined when their workers began
    assert len(labels) == len(end["summary"]) == 2
    assert {one["utilization_percent"]["mean"] for one in end["summary"].values()} == {50.0}
    assert end["node"]["cpu_percent"]["mean"] is not None
    samples = [one for one in lines if one["event"] == "sample"]
    assert len(samples) == end["samples"] > 2
    assert {uuid for one in samples for uuid in one["devices"]} == end["summary"].keys()
    assert {one["device"] for one in lines if one["event"] == "item"} == labels
    assert not list((login.folder / "state").glob("andon/runs/*"))  # no other run
    assert not list((login.folder / "state").glob("andon/clusters/*/map-*"))


def test_a_job_that_was_cancelled_while_it_waited_stays_cancelled(login: Login) -> None:
    blocks = [login.submit("--gpus", "4", "--", "sleep", "1000") for _ in range(2)]
    waits = login.submit("--gpus", "4", "--", "true")
    login.andon("cancel", waits)
    login.forget(waits)
    state = login.jobs()[waits]["state"]
    login.andon("cancel", *blocks)
    assert state == "cancelled"


@pytest.mark.parametrize("shown", ["gpus", "where"])
def test_what_is_shown_of_a_job_stays_when_slurm_forgets_it(login: Login, shown: str) -> None:
    job = login.submit("--engine-option", "--gpus-per-node=0", "--", "true")
    before = login.ended(job)
    login.forget(job)
    assert login.jobs()[job][shown] == before[shown]


def test_a_job_that_a_rule_stopped_is_shown_with_the_rule(login: Login) -> None:
    rule = ("--metric", "loss=(.*)", "--stop-when", "loss>2")
    job = login.submit(*rule, "--", "sh", "-c", "echo loss=3; exec sleep 600")
    reasons = [login.ended(job)["reason"]]
    login.forget(job)
    reasons.append(login.jobs()[job]["reason"])
    assert all("loss is 3" in str(one) for one in reasons), reasons


def test_nodes_that_andon_reads_are_listed_with_their_use(login: Login) -> None:
    with serving(Path(login.variables["XDG_STATE_HOME"]), simulate=4, ANDON_NODE="n1"):
        listed = json.loads(login.andon("nodes", "--on", "slurm", "--json"))["nodes"]
    (read,) = (one for one in listed if one["name"] == "n1")
    assert read["utilization_percent"] is not None, read["missing"]


def test_a_job_of_slurm_leases_what_slurm_gave_on_a_node_of_mixed_models(
    node: StandIn, login: Login
) -> None:
    first, second, *others = StandIn.devices(4)
    node.write([replace(first, name="NVIDIA A100"), second, *others])
    login.variables.update(
        SLURM_JOB_ID="7", SLURM_STEP_GPUS="1", SLURM_JOB_GPUS="1", CUDA_VISIBLE_DEVICES="0"
    )
    login.andon("run", "--name", "inside", "--", "true")
    (run,) = json.loads(login.andon("runs", "--json"))["runs"]
    assert [one["index"] for one in run["devices"]] == [1]


def test_a_map_is_refused_before_anything_is_announced_or_recorded(tmp_path: Path) -> None:
    (tmp_path / "items").write_text("a\nb\n")
    words = ("map", "--on", "ray", "--items", str(tmp_path / "items"), "--", "true")
    for address in ("", GONE):
        done = andon(tmp_path, *words, RAY_API_SERVER_ADDRESS=address)
        assert (done.returncode, len(done.stderr.splitlines())) == (125, 2), done.stderr
        assert "ray: " in done.stderr
    assert json.loads(andon(tmp_path, "runs", "--json").stdout)["runs"] == []
