"""Commands of a person with a kubeconfig, on a stand-in cluster whose nodes report to a hub."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import need
from tests.integration.jobs.kubernetes_person import FakeHub, Person
from tests.integration.serving import make_certificate
from tests.standin.kubernetes.standin import KubernetesStandin


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandin]:
    need("kubectl")
    found = KubernetesStandin(
        certificate=make_certificate(tmp_path_factory.mktemp("certificate"))[0]
    )
    found.node("g1", 8)
    found.node("g2", 8)
    found.namespace("team-a")
    found.pod("notebook-7", "g1", 8, "team-a", "2026-01-01T00:00:00Z")
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
    script = "echo begun loss=0.5; sleep 1; echo done loss=0.25"
    figures = ("--metric", r"loss=([\d.]+)")
    done = person.andon("submit", "--on", "k8s", *image, *figures, "--", "sh", "-c", script)
    job = done.stdout.strip()
    assert job.startswith("k8s:default/andon-a")
    assert "prefers g2: 4 free, really idle" in done.stderr
    assert person.andon("logs", job, "-f").stdout == "begun loss=0.5\ndone loss=0.25\n"
    shown = json.loads(person.andon("jobs", "--json").stdout)
    (row,) = [one for one in shown["jobs"] if one["label"] == job]
    assert (row["state"], row["where"], row["exit_code"]) == ("succeeded", "g2", 0)
    (record,) = json.loads(person.andon("runs", "--json").stdout)["runs"]
    assert record["id"] == row["run"]
    assert (record["node"], record["exit_code"], record["params"]["job"]) == ("g2", 0, job)
    assert [one["uuid"] for one in record["devices"]] == ["GPU-7"]
    assert record["samples"] >= 1
    lines = [json.loads(line) for line in Path(record["path"]).read_text().splitlines()]
    assert [one["values"] for one in lines if "values" in one] == [{"loss": 0.5}, {"loss": 0.25}]
    assert record["no_samples_reason"] is None


def test_why_names_what_is_free_and_cancel_ends_it(person: Person) -> None:
    words = ("submit", "--on", "k8s", "--gpus", "8", "--image", "x", "--", "true")
    job = person.andon(*words).stdout.strip()
    said = person.andon("why", job).stdout
    assert "needs 8 GPUs on one node: g2 has 4 free, g1 0; 3 GPUs of g1 idle for 2 h" in said
    assert "(team-a/notebook-7)" in said
    assert "ask whose they are, or use --gpus 4" in said
    person.andon("cancel", job)
    assert "cancelled" in person.andon("jobs").stdout


def test_words_reach_the_container_as_they_were_written(person: Person) -> None:
    words = ("$0", "$$", "$(HOME)", "$$(HOME)")
    done = person.andon("run", "--on", "k8s", "--image", "x", "--", "echo", *words)
    assert done.stdout == f"{' '.join(words)}\n"


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
    hopeless = person.andon(*there, "--stop-when", "loss>2", "--", "x", code=2)
    assert "does not take --stop-when" in hopeless.stderr
    assert "k8s knows no job" in person.andon("logs", "k8s:default/none", code=5).stderr
