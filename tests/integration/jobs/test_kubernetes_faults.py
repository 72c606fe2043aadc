"""Faults of Kubernetes' API: lists and watches that expire or are cut, refusals, what others do."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import andon
from andon.clusters.kubernetes import KubernetesCluster, listing, transport
from andon.clusters.kubernetes.listing import FollowedList, list_all
from andon.clusters.kubernetes.records import NO_HUB
from andon.clusters.kubernetes.rules import manifest
from andon.clusters.kubernetes.rules.objects import ApiPod, ListOf
from andon.clusters.kubernetes.transport import InsideTransport
from andon.errors import Denied, Gone, Invalid, Unavailable
from andon.fleet import node_readings
from andon.fleet.rules.states import NodeRow, NodeState
from andon.host.state.user_folder import runs_folder
from andon.jobs.clusters import desk as desk_module
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.clusters.notes import submit_once
from andon.model.job.desk import Submission
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobState
from andon.model.job.spec import JobSpec
from andon.settings.clusters import ClusterSettings
from tests.conftest import need
from tests.integration.parts import wait_until
from tests.integration.serving import make_certificate
from tests.standin.kubernetes.objects import now
from tests.standin.kubernetes.standin import KubernetesStandin
from tests.support.replaced import answers, constants

PODS = "/api/v1/namespaces/default/pods"


class Played:
    """A stand-in whose controllers and kubelet are the test, and a client inside it."""

    def __init__(self, standin: KubernetesStandin, account: Path) -> None:
        self.standin, self.account = standin, account
        self.objects, self.api = standin.objects, standin.api
        port = int(standin.api.url.rpartition(":")[2])
        self.transport = InsideTransport("127.0.0.1", port, 3.0, account)
        self.cluster = self.within(3.0)

    def within(self, seconds: float) -> KubernetesCluster:
        """Returns a client that waits for so long."""
        return KubernetesCluster(ClusterSettings("k8s", "k8s", seconds, {"image": "x"}))

    def submit(self, label: str = "t1") -> str:
        spec = JobSpec(1, "x", ("true",), "/", DeviceRequest(), time.time())
        return self.cluster.submit(Submission(label, spec))

    def made_pod(self, job: str, **status: Any) -> None:
        """Adds the pod of a job, with this status."""
        name = job.partition("/")[2]
        owner = {"kind": "Job", "name": name, "uid": "u", "apiVersion": "batch/v1"}
        labels = {"andon/job": name.removeprefix("andon-")}
        meta = {"name": f"{name}-p", "ownerReferences": [owner], "labels": labels}
        spec = {"nodeName": "g1", "containers": [{"name": "main", "image": "x"}]}
        self.objects.create("pods", {"metadata": meta, "spec": spec, "status": status}, "default")

    def state(self, job: str) -> tuple[JobState, str | None]:
        (found,) = [one for one in self.cluster.jobs(0.0) if one.id == job]
        return found.state, found.reason

    def names(self, pods: FollowedList[ApiPod]) -> list[str]:
        return sorted(one.metadata.name for one in pods.items())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("certificate"))[0]


@pytest.fixture
def played(certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    standin = KubernetesStandin(controlled=False, certificate=certificate)
    standin.node("g1", 4)
    account = standin.account(tmp_path, certificate)
    constants(monkeypatch, transport, ACCOUNT=account)
    monkeypatch.setenv(transport.HOST, "127.0.0.1")
    monkeypatch.setenv(transport.PORT, standin.api.url.rpartition(":")[2])
    yield Played(standin, account)
    standin.close()


def test_a_long_list_is_paged_and_begun_again_when_a_page_expires(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants(monkeypatch, listing, PAGE=2)
    for place in range(5):
        played.standin.pod(f"p{place}", "g1", 0)
    played.api.faults.expire_pages = 1
    found, version = list_all(played.transport, PODS, ApiPod)
    assert [one.metadata.name for one in found] == [f"p{place}" for place in range(5)]
    assert int(version) > 0
    asked = [one for one in played.api.requests if "/pods?" in one]
    assert len(asked) == 2 + 3
    with played.api.fault(expire_pages=99), pytest.raises(Unavailable):
        list_all(played.transport, PODS, ApiPod)


def test_a_list_is_asked_for_once_and_then_watched(played: Played) -> None:
    pods = FollowedList(played.transport, PODS, ApiPod)
    assert played.names(pods) == []
    assert played.names(pods) == []  # wanted again: from here on it is watched
    lists = played.objects.lists
    played.standin.pod("a", "g1", 1)
    played.standin.pod("b", "g1", 1)
    wait_until(lambda: played.names(pods) == ["a", "b"], "both pods")
    played.objects.remove("pods", "default", "a")
    wait_until(lambda: played.names(pods) == ["b"], "the removal")
    assert played.objects.lists == lists
    pods.forget()
    assert played.names(pods) == ["b"]
    assert played.objects.lists == lists + 1


def test_a_list_that_a_watch_overtook_brings_nothing_back_and_drops_nothing(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = FollowedList(played.transport, PODS, ApiPod)
    played.standin.pod("old", "g1", 1)
    played.names(pods)
    played.names(pods)
    ask = listing.list_all

    def overtaken(*given: Any, **query: Any) -> Any:
        answer = ask(*given, **query)
        played.objects.remove("pods", "default", "old")
        played.standin.pod("new", "g1", 1)
        wait_until(lambda: [one.metadata.name for one in pods._objects.values()] == ["new"], "both")
        return answer

    monkeypatch.setattr(listing, "list_all", overtaken)
    pods.forget()
    assert played.names(pods) == ["new"]
    assert played.names(pods) == ["new"]


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_watch_that_is_cut_at_any_event_loses_nothing(played: Played, after: int) -> None:
    pods = FollowedList(played.transport, PODS, ApiPod)
    with played.api.fault(cut_after=after):
        for place in range(4):
            played.names(pods)
            played.standin.pod(f"p{place}", "g1", 1)
        wanted = [f"p{place}" for place in range(4)]
        wait_until(lambda: played.names(pods) == wanted, "all pods")


def test_a_watch_whose_version_expired_is_begun_again_by_a_list(played: Played) -> None:
    pods = FollowedList(played.transport, PODS, ApiPod)
    played.names(pods)
    played.names(pods)
    played.objects.forget_past()
    played.standin.pod("a", "g1", 1)
    wait_until(lambda: played.names(pods) == ["a"], "the pod")


def test_too_many_requests_are_waited_for_within_the_limit(played: Played) -> None:
    with played.api.fault(busy=1):
        assert played.cluster.jobs(0.0) == []
    with played.api.fault(busy=99, again_after=3), pytest.raises(Unavailable) as caught:
        played.within(5.0).jobs(0.0)
    assert "too many requests" in caught.value.reason


def test_a_minute_of_429_leaves_the_last_list_and_the_next_question_works(
    played: Played, state_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command asks for seconds, not for the minute; what it last knew stays, with a line."""
    job = played.submit()
    opened = ClusterDesk("k8s", 3.0, lambda: played.cluster)
    assert [one.engine_id for one in opened.listing().views] == [job]
    with played.api.fault(busy=10_000, again_after=5):
        answers(monkeypatch, desk_module, "is_fresh", False)
        played.cluster = played.within(4.0)  # less than it is told to wait for
        found = ClusterDesk("k8s", 4.0, lambda: played.cluster).listing()
        assert [one.engine_id for one in found.views] == [job]
        assert "too many requests" in (found.clusters[0].trouble or "")
        with pytest.raises(Unavailable):  # and nothing is sent
            played.submit("t2")
    assert [one["metadata"]["name"] for one in played.objects.select("jobs")] == ["andon-t1"]
    assert opened.listing().clusters[0].trouble is None


def test_a_job_whose_time_to_live_ran_out_before_anyone_looked_is_lost_and_its_record_stays(
    played: Played, state_folder: Path
) -> None:
    spec = JobSpec(1, "x", ("true",), "/", DeviceRequest(), time.time())
    jobs = []
    for label in ("seen", "unseen"):
        jobs.append(submit_once("k8s", played.cluster, Submission(label, spec)))
        ended = {"exitCode": 3, "startedAt": now(), "finishedAt": now()}
        main = {"name": "main", "state": {"terminated": ended}}
        played.made_pod(jobs[-1], phase="Failed", containerStatuses=[main])
        job = played.objects.get("jobs", "default", f"andon-{label}")
        job["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
        played.objects.replace("jobs", job, status=True)
        if label == "seen":
            assert played.state(jobs[0])[0] is JobState.FAILED
        played.objects.remove("jobs", "default", f"andon-{label}")
        played.objects.remove("pods", "default", f"andon-{label}-p")
    listed = ClusterDesk("k8s", 3.0, lambda: played.cluster).listing()
    assert [view.state for view in listed.views] == [JobState.LOST] * 2
    assert {view.reason for view in listed.views} == {
        "k8s no longer knows it: how it ended is not known"
    }
    (record,) = runs_folder().glob("*.jsonl")
    last = json.loads(record.read_text().splitlines()[-1])
    assert (last["exit_code"], last["state"], last["no_samples_reason"]) == (3, "failed", NO_HUB)


def test_a_deployment_without_a_pod_waits_with_its_reason_until_it_is_cancelled(
    played: Played, state_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, desk_module, "is_fresh", False)
    spec = JobSpec(1, "serve", ("x",), "/", DeviceRequest(least=2, most=2), time.time())
    opened = ClusterDesk("k8s", 3.0, lambda: played.cluster)

    def listed() -> list[tuple[JobState, str | None, str]]:
        return [(one.state, one.reason, one.gpus) for one in opened.listing().views]

    for kind, label in (("deployment", "t1"), ("inferenceservice", "t2")):
        told = Submission(label, spec, options=(f"kind={kind}",))
        job = submit_once("k8s", played.cluster, told)
        assert listed() == [(JobState.WAITING, "it has no pod yet", "2")]
        if kind == "deployment":
            quota = "pods is forbidden: exceeded quota: gpus"
            full = {"type": "ReplicaFailure", "status": "True", "message": quota}
            made = played.objects.get("deployments", "default", "andon-t1")
            played.objects.replace(
                "deployments", {**made, "status": {"conditions": [full]}}, status=True
            )
            assert listed() == [(JobState.WAITING, f"its pod cannot be made: {quota}", "2")]
            why = played.cluster.job(job)
            assert (why.reason, why.advice) == (
                f"its pod cannot be made: {quota}",
                "is a quota of the namespace used up?",
            )
        played.cluster.cancel([job])
        assert listed() == []
        with pytest.raises(Gone):
            played.cluster.job(job)


def test_a_kind_that_the_cluster_does_not_have_is_refused(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {**manifest.KINDS, "inferenceservice": ("serving.kserve.io/v1beta1", "Unknown")}
    constants(monkeypatch, manifest, KINDS=there)
    spec = JobSpec(1, "x", ("true",), "/", DeviceRequest(), time.time())
    with pytest.raises(Invalid, match="this cluster has no Unknown"):
        played.cluster.submit(Submission("t1", spec, options=("kind=inferenceservice",)))


def test_a_token_that_was_rotated_is_read_again(played: Played) -> None:
    played.api.faults.token = "newer"
    with pytest.raises(Denied):
        played.cluster.jobs(0.0)
    (played.account / "token").write_text("newer")
    assert played.cluster.jobs(0.0) == []
    (played.account / "token").unlink()
    with pytest.raises(Denied) as caught:
        played.cluster.jobs(0.0)
    assert "token cannot be read" in caught.value.reason


def test_who_may_not_read_nodes_can_still_submit(played: Played) -> None:
    words = 'nodes is forbidden: User "low" cannot list resource "nodes" in API group "" at the'
    with played.api.fault(refuse={"/nodes": (403, "Forbidden", words)}):
        assert played.submit() == "default/andon-t1"
        with pytest.raises(Denied) as caught:
            played.cluster.nodes()
    assert caught.value.reason == "low may not list nodes"


def test_one_that_was_created_and_not_started_is_started_by_the_same_submission(
    played: Played,
) -> None:
    with (
        played.api.fault(refuse={"jobs/andon-t1": (500, "InternalError", "etcd")}),
        pytest.raises(Unavailable),
    ):
        played.submit()
    assert played.state("default/andon-t1")[1] == (
        "it was created and not started, because andon was interrupted"
    )
    job = played.submit()
    assert played.objects.get("jobs", "default", "andon-t1")["spec"]["parallelism"] == 1
    assert played.state(job) == (JobState.WAITING, "it has no pod yet")


ENDED = {"exitCode": 137, "startedAt": now(), "finishedAt": now()}


@pytest.mark.parametrize(
    ("status", "state", "words"),
    [
        ({"phase": "Failed", "reason": "Evicted", "message": "low on disk"}, JobState.FAILED,
         "its node evicted it: low on disk"),
        ({"phase": "Failed", "reason": "Preempting"}, JobState.FAILED, "a pod with a higher"),
        ({"phase": "Failed", "containerStatuses": [
            {"name": "main", "state": {"terminated": {**ENDED, "reason": "OOMKilled"}}}]},
         JobState.FAILED, "it used more memory of the node than its limit"),
    ],
)  # fmt: skip
def test_what_happens_to_a_pod_is_said(
    played: Played, status: dict[str, Any], state: JobState, words: str
) -> None:
    job = played.submit()
    played.made_pod(job, **status)
    found = played.state(job)
    assert found[0] is state
    assert (found[1] or "").startswith(words)
    assert (played.cluster.job(job).reason or "").startswith(words)


def test_a_node_that_is_not_heard_of_makes_its_pod_doubtful(played: Played) -> None:
    job = played.submit()
    running = {"name": "main", "state": {"running": {"startedAt": now()}}}
    played.made_pod(job, phase="Running", containerStatuses=[running])
    assert played.cluster.job(job).reason is None
    node = played.objects.get("nodes", "", "g1")
    node["status"]["conditions"][0]["status"] = "Unknown"
    played.objects.replace("nodes", node, status=True)
    again = KubernetesCluster(ClusterSettings("k8s", "k8s", 3.0, {"image": "x"}))
    assert "not known" in (again.job(job).reason or "")


def test_a_pod_that_someone_deleted_and_a_job_that_is_gone(played: Played) -> None:
    job = played.submit()
    played.made_pod(job, phase="Pending")
    played.objects.remove("pods", "default", "andon-t1-p")
    assert played.state(job)[0] is JobState.WAITING
    played.objects.event(
        played.objects.get("jobs", "default", "andon-t1"), "FailedCreate", "exceeded quota"
    )
    assert "exceeded quota" in (played.cluster.job(job).reason or "")
    played.objects.remove("jobs", "default", "andon-t1")
    with pytest.raises(Gone):
        played.cluster.job(job)


def test_a_log_is_followed_across_pods(played: Played) -> None:
    job = played.submit()
    texts = {"a": b"one\n", "b": b"two\n"}
    for name in list(texts):
        state = {"terminated": {"exitCode": 1, "startedAt": now(), "finishedAt": now()}}
        meta = {"name": f"andon-t1-{name}", "labels": {"andon/job": "t1"},
                "ownerReferences": [{"kind": "Job", "name": "andon-t1"}]}  # fmt: skip
        spec = {"nodeName": "g1", "containers": [{"name": "main", "image": "x"}]}
        status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": state}]}
        made = {"metadata": meta, "spec": spec, "status": status}
        found = played.objects.create("pods", made, "default")
        texts[found["metadata"]["uid"]] = texts[name]
    played.standin.kubelet.output = lambda uid, follow: iter([texts[uid]])  # type: ignore[method-assign]
    assert sorted(played.cluster.log(job, 0, 100).text.split()) == ["one", "two"]
    assert played.cluster.log(job, 4, 100).start == 4


def test_answers_that_are_none_are_no_crash(played: Played) -> None:
    for body in (b"", b"[]", b"{", b'{"items": 5}', b'{"items": [5]}', b"\xff"):
        with pytest.raises(Unavailable):
            listing.parsed(ListOf[ApiPod], body)


# The kept functions.


def test_the_kept_functions_see_the_cluster_and_deploy_to_it(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.standin.node("g2", 8)
    loads = {"g1": 5.0, "g2": 80.0}
    rows = {
        n: NodeRow(n, NodeState.HEALTHY, 1.0, gpus=8, utilization_percent=load, memory_percent=5.0)
        for n, load in loads.items()
    }
    answers(monkeypatch, node_readings, "_rows", (None, rows))
    first, second = andon.get_cluster_gpu_status()
    assert (first.name, first.gpus, first.free, first.utilization_percent) == ("g1", 4, 4, 5.0)
    assert second.utilization_percent == 80.0
    assert andon.select_best_node(required_gpus=4) == "g1"
    assert andon.select_best_node(required_gpus=8) is None
    assert andon.select_best_node(task_config={"parameters": {"tp-size": [2, 4]}}) == "g1"
    assert andon.select_best_node(task_config={"parameters": {"tp-size": 8}}) is None
    named = andon.deploy("vllm serve x", "vllm:1", task_config={"parameters": {"tp-size": 2}})
    (made,) = played.objects.select("deployments")
    assert named == f"k8s:default/{made['metadata']['name']}"
    pod = made["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 2}
    assert "affinity" in pod
    andon.deploy("x", "vllm:1", kind="job", enable_gpu_selection=False)
    (job,) = played.objects.select("jobs")
    assert "affinity" not in job["spec"]["template"]["spec"]
    assert job["metadata"]["annotations"]["andon/placement"].endswith("GPU selection is off")
    played.cluster.cancel([named.partition(":")[2]])
    assert played.objects.select("deployments") == []


# Bad input, by kubectl.


def test_no_kubectl_and_no_context_are_said(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(transport.HOST)
    need("kubectl")
    config = played.standin.kubeconfig(tmp_path, played.account / "ca.crt")
    monkeypatch.setenv("KUBECONFIG", str(config))
    there = KubernetesCluster(ClusterSettings("k8s", "k8s", 60.0, {"context": "none"}))
    with pytest.raises(Invalid) as caught:
        there.nodes()
    assert caught.value.reason.startswith("kubectl has no such context")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Invalid) as caught:
        KubernetesCluster(ClusterSettings("k8s", "k8s", 60.0, {})).nodes()
    assert caught.value.reason == "there is no kubectl on PATH"
