"""Manifests of submissions, states of Jobs and pods in words, and refusals, as tables."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert
from msgspec.structs import replace

from andon.clusters.kubernetes import KubernetesCluster
from andon.clusters.kubernetes.rules import manifest as made
from andon.clusters.kubernetes.rules.failures import ListExpired, of_kubectl, of_status
from andon.clusters.kubernetes.rules.manifest import KubernetesOptions
from andon.clusters.kubernetes.rules.objects import ApiEvent, ApiPod, BatchJob, seconds_of
from andon.clusters.kubernetes.rules.states import (
    ENDS,
    WAITS,
    cluster_job,
    grouped,
    last_warning,
    lost_node,
    pod_job,
    pod_state,
)
from andon.errors import AndonError, Conflict, Denied, Gone, Invalid, Unavailable
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.rules.able import refuse
from andon.model.codec import read
from andon.model.job.cluster import ClusterJob
from andon.model.job.desk import Submission
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobState
from andon.model.job.spec import Checkpoint, JobSpec
from andon.model.shapes import to_json
from andon.settings.clusters import ClusterSettings
from tests.standin.kubernetes.kubelet import expanded
from tests.support.rows import rows

GPU, AT = "nvidia.com/gpu", "2026-11-17T12:00:00Z"
OPTIONS = KubernetesOptions(image="pytorch:2.8")
JOB = JobSpec(
    1, "train", ("python", "train.py"), "/home/x", DeviceRequest(least=2, most=2), 1.0, "anna"
)
SENT = Submission("a1b2c3", JOB)


def manifest(sent: Submission = SENT, options: KubernetesOptions = OPTIONS, **more: Any) -> Any:
    return made.manifest(sent, options, "default", GPU, "anna", **more)


def test_a_job_is_created_asleep_with_its_labels_and_nothing_of_our_own() -> None:
    found = manifest()
    assert found["metadata"]["labels"] == {
        "andon/job": "a1b2c3", "andon/run": "a1b2c3", "andon/user": "anna",
    }  # fmt: skip
    assert found["metadata"]["name"] == "andon-a1b2c3"
    spec = found["spec"]
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (0, 1, 0)
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    (container,) = pod["containers"]
    assert container["resources"] == {"limits": {GPU: 2}}
    assert (container["image"], container["command"]) == ("pytorch:2.8", ["python", "train.py"])
    ours = {"affinity", "nodeName", "nodeSelector", "priorityClassName", "tolerations"}
    assert not ours & set(pod)
    assert made.started(found)["spec"]["parallelism"] == 1


def test_a_container_gets_every_word_as_it_is() -> None:
    words = ("sh", "-c", 'echo $(HOME) $$ "$(date)" $x $(', "$$(HOME)", "$")
    options = replace(OPTIONS, env=("A=$(HOME)$$",))
    sent = replace(SENT, job=replace(SENT.job, argv=words))
    (container,) = manifest(sent, options)["spec"]["template"]["spec"]["containers"]
    known = {"HOME": "/root", "date": "never"}
    assert tuple(expanded(word, known) for word in container["command"]) == words
    assert [expanded(one["value"], known) for one in container["env"]] == ["$(HOME)$$"]


def test_the_best_nodes_are_a_preference_and_no_demand() -> None:
    pod = manifest(preferred=("g2", "g1"))["spec"]["template"]["spec"]
    (kind,) = pod["affinity"]["nodeAffinity"]
    assert kind == "preferredDuringSchedulingIgnoredDuringExecution"
    terms = pod["affinity"]["nodeAffinity"][kind]
    assert [term["weight"] for term in terms] == [100, 70]
    assert [term["preference"]["matchFields"][0]["values"] for term in terms] == [["g2"], ["g1"]]


def test_a_queue_suspends_and_counts_the_pod() -> None:
    found = manifest(options=replace(OPTIONS, queue="team"))
    assert found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert (found["spec"]["suspend"], found["spec"]["parallelism"]) == (True, 1)


@rows(
    ("kind", "group", "noun"),
    [
        ("job", "batch/v1", "Job"), ("deployment", "apps/v1", "Deployment"),
        ("inferenceservice", "serving.kserve.io/v1beta1", "InferenceService"),
    ],
)  # fmt: skip
def test_each_kind_has_its_own_object(kind: str, group: str, noun: str) -> None:
    found = manifest(options=replace(OPTIONS, kind=kind), preferred=("g2",))
    assert (found["apiVersion"], found["kind"]) == (group, noun)
    assert "preferredDuring" in json.dumps(found)
    assert "requiredDuring" not in json.dumps(found)


def test_options_of_a_job_reach_its_pod() -> None:
    words = (
        "cpu=4", "memory=64Gi", "env=A=b=c", "volume=data:/data:ro", "service-account=runner",
        "namespace=team-a", "gpu-selection=false",
    )  # fmt: skip
    options = made.with_job_options(OPTIONS, words)
    assert (options.namespace, options.gpu_selection) == ("team-a", False)
    asked = {**JOB.container, "pull": "missing", "user": "1000"}
    job = replace(JOB, for_seconds=90.5, grace_seconds=5.0, retries=2, container=asked)
    found = manifest(replace(SENT, job=job), options)
    pod = found["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["resources"]["requests"] == {"cpu": "4", "memory": "64Gi"}
    assert {"name": "A", "value": "b=c"} in container["env"]
    assert container["volumeMounts"] == [
        {"name": "volume-0", "mountPath": "/data", "readOnly": True}
    ]
    assert (pod["activeDeadlineSeconds"], pod["terminationGracePeriodSeconds"]) == (91, 5)
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert pod["securityContext"] == {"runAsUser": 1000}
    assert (pod["serviceAccountName"], found["spec"]["backoffLimit"]) == ("runner", 2)


@rows(
    "words",
    [
        "x=1", "cpu", "cpu=lots", "memory=-1", "kind=pod", "namespace=Team", "context=other",
        "env=1A=x", "volume=/data", "resource=cpu", "gpu-selection=maybe", "queue=a/b",
        f"namespace={'n' * 64}", "hub=http://x", "image=\x1b[2J",
    ],
)  # fmt: skip
def test_an_option_that_is_none_is_refused(words: str) -> None:
    with pytest.raises(Invalid) as caught:
        made.with_job_options(OPTIONS, [words])
    assert caught.value.reason.isprintable()


@rows(
    "options",
    [
        {"x": 1}, {"namespace": 5}, {"idle_memory": 101}, {"idle_utilization": "x"}, {"env": "A=1"},
        {"gpu_selection": "no"}, {"cpu": "lots"}, {"volume": [5]}, {"kind": "pod"},
    ],
)  # fmt: skip
def test_a_setting_that_is_none_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        made.read_options(ClusterSettings("k8s", "k8s", 10.0, options))


def test_settings_are_read() -> None:
    given = {"image": "x", "env": ["A=1"], "idle_memory": 20, "gpu_selection": False}
    found = made.read_options(ClusterSettings("k8s", "k8s", 10.0, given))
    assert (found.env, found.limits.memory, found.gpu_selection) == (("A=1",), 20.0, False)


@rows("image", ["", "a b", "-x", "x:", "x/", "x@", "x\n", "ü", "x" * 2000, "$(id)"])
def test_an_image_that_is_none_is_refused(image: str) -> None:
    with pytest.raises(Invalid):
        manifest(options=replace(OPTIONS, image=image))


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("--after", {"after": ("x",)}, {}), ("--after", {"after_any": ("x",)}, {}),
    ("--array", {"indices": (1,)}, {}), ("--per-gpu", {"per_gpu": 1}, {}),
    ("--begin", {}, {"begin_at": 5.0}), ("--timeout", {}, {"timeout_seconds": 5.0}),
    ("--retry-oom", {}, {"retry_oom": 1}), ("--checkpoint", {}, {"checkpoint": Checkpoint()}),
    ("--bind", {}, {"bind": True}), ("--memory", {}, {"request": DeviceRequest(memory_bytes=1)}),
    ("--shared", {}, {"request": DeviceRequest(shared=True)}),
    ("--model", {}, {"request": DeviceRequest(models=("h100",))}),
    ("--device", {}, {"request": DeviceRequest(devices=("0",))}),
    ("--gpus all", {}, {"request": DeviceRequest(every=True)}),
    ("a range", {}, {"request": DeviceRequest(least=1, most=2)}),
    ("--priority", {}, {"request": DeviceRequest(priority=5)}),
    ("--mount", {}, {"container": {"image": "x", "mounts": [{}]}}),
    ("--container-option", {}, {"container": {"image": "x", "options": ["--rm"]}}),
    ("--container-user", {}, {"container": {"image": "x", "user": "bob"}}),
]  # fmt: skip


@rows(("name", "sent", "job"), REFUSED)
def test_what_kubernetes_has_not_is_refused_with_what_to_use(
    name: str, sent: dict[str, Any], job: dict[str, Any]
) -> None:
    desk = ClusterDesk("k8s", 1.0, lambda: KubernetesCluster(ClusterSettings("k8s", "k8s")))
    with pytest.raises(Invalid) as caught:
        refuse(desk, [replace(SENT, job=replace(JOB, **job), **sent)])
    assert name in caught.value.reason
    assert caught.value.hint


@given(st.text(max_size=200))
def test_any_name_becomes_a_label(text: str) -> None:
    found = made.label_value(text)
    assert len(found) <= 63
    assert found == "" or (found[0].isalnum() and found[-1].isalnum() and found.isascii())


def test_secrets_of_the_command_are_not_noted() -> None:
    job = replace(JOB, argv=("train", "--token", "hunter2"))
    notes = manifest(replace(SENT, job=job))["metadata"]["annotations"]
    assert "hunter2" not in json.dumps(notes)


# States.


def pod(phase: str = "Pending", state: Any = None, node: str = "", **more: Any) -> ApiPod:
    status = {"phase": phase, **more}
    if state is not None:
        status["containerStatuses"] = [{"name": "main", "state": state}]
    spec = {"nodeName": node, "containers": [{"name": "main"}]}
    meta = {"name": "p", "namespace": "default", "creationTimestamp": AT, "uid": "u"}
    return convert({"metadata": meta, "spec": spec, "status": status}, ApiPod)


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": AT, "finishedAt": AT}}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


UNFIT = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2"}
PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
PODS = [
    (pod("Succeeded", ended(0, "Completed")), JobState.SUCCEEDED, ""),
    (pod("Failed", ended(3)), JobState.FAILED, "exit code 3"),
    (pod("Failed", ended(137)), JobState.FAILED, "killed by signal 9 (exit code 137)"),
    (pod("Failed", ended(137, "OOMKilled")), JobState.FAILED, ENDS["OOMKilled"].text),
    (pod("Failed", reason="Evicted", message="disk"), JobState.FAILED, "its node evicted it: disk"),
    (pod("Failed", ended(143), conditions=[PREEMPTED]), JobState.FAILED, "a pod with a higher"),
    (pod("Failed", reason="Preempting"), JobState.FAILED, "a pod with a higher priority"),
    (pod("Failed", reason="DeadlineExceeded"), JobState.TIMED_OUT, "it reached its time limit"),
    (pod("Failed", reason="NodeLost"), JobState.LOST, "its node is not heard of"),
    (pod("Failed", reason="OutOfgpu"), JobState.FAILED, "its node had no GPU for it after all"),
    (pod("Failed", ended(128, "StartError")), JobState.FAILED, "its command could not be started"),
    (pod("Failed"), JobState.FAILED, "it failed"),
    (pod("Failed", reason="New", message="x"), JobState.FAILED, "New: x"),
    (pod("Pending", waiting("ImagePullBackOff", "no")), JobState.WAITING, "its image cannot be"),
    (pod("Pending", waiting("InvalidImageName")), JobState.WAITING, "the name of its image"),
    (pod("Pending", waiting("CreateContainerConfigError")), JobState.WAITING, "its container cann"),
    (pod("Pending", waiting("SomethingNew", "m")), JobState.WAITING, "SomethingNew: m"),
    (pod("Pending", waiting("ContainerCreating"), "g1"), JobState.WAITING, "its container is be"),
    (pod("Pending", conditions=[UNFIT]), JobState.WAITING, "no node can take it now: 0/2"),
    (pod("Pending"), JobState.WAITING, "the scheduler has not looked at it yet"),
    (pod("Running", {"running": {"startedAt": AT}}), JobState.RUNNING, ""),
    (pod("Running", reason="NodeLost"), JobState.RUNNING, "its node is not heard of"),
]


@rows(("one", "state", "words"), PODS)
def test_a_pods_state_is_told_in_words(one: ApiPod, state: JobState, words: str) -> None:
    found, why = pod_state(one)
    assert found is state
    assert why.text.startswith(words)
    row = pod_job([one], "p")
    assert read(ClusterJob, to_json(row)) == row


@rows("reason", [*WAITS, *ENDS])
def test_every_known_reason_has_words_of_its_own(reason: str) -> None:
    words = (WAITS.get(reason) or ENDS[reason]).text
    assert words[0].islower()
    assert reason not in words


def job(conditions: Any = (), notes: Any = None, **spec: Any) -> BatchJob:
    labels = {"andon/job": "a1b2c3", "andon/user": "anna", **spec.pop("labels", {})}
    meta = {"name": "andon-a1b2c3", "namespace": "default", "creationTimestamp": AT}
    limits = {"resources": {"limits": {GPU: "2"}}, "name": "main"}
    return convert(
        {
            "metadata": {**meta, "labels": labels, "annotations": notes or {}},
            "spec": {"parallelism": 1, "backoffLimit": 0, **spec,
                     "template": {"spec": {"containers": [limits]}}},
            "status": {"conditions": [{"status": "True", **one} for one in conditions]},
        },
        BatchJob,
    )  # fmt: skip


COMPLETE, FAILED = {"type": "Complete"}, {"type": "Failed", "reason": "BackoffLimitExceeded"}
LATE = {"type": "Failed", "reason": "DeadlineExceeded"}
GONE = {"andon/cancelled": AT}
RUNS = pod("Running", {"running": {"startedAt": AT}}, "g1")
JOBS = [
    (job(), [], JobState.WAITING, "it has no pod yet"),
    (job(parallelism=0), [], JobState.WAITING, "it was created and not started"),
    (job(suspend=True), [], JobState.WAITING, "it is suspended"),
    (job(suspend=True, labels={"kueue.x-k8s.io/queue-name": "q"}), [], JobState.WAITING, "its que"),
    (job(), [RUNS], JobState.RUNNING, ""),
    (job([COMPLETE]), [pod("Succeeded", ended(0))], JobState.SUCCEEDED, ""),
    (job([COMPLETE]), [], JobState.SUCCEEDED, ""),
    (job([FAILED]), [pod("Failed", ended(3))], JobState.FAILED, "exit code 3"),
    (job([FAILED]), [], JobState.FAILED, "it failed"),
    (job([LATE]), [], JobState.TIMED_OUT, "it reached its time limit"),
    (job(), [pod("Failed", ended(3))], JobState.FAILED, "exit code 3"),
    (job(backoffLimit=2), [pod("Failed", ended(3))], JobState.WAITING, "it is tried again: exit"),
    (job([LATE], GONE, parallelism=0), [], JobState.CANCELLED, "cancelled"),
    (job((), GONE, parallelism=0), [RUNS], JobState.RUNNING, "it is being cancelled"),
    (job((), GONE, parallelism=0), [pod()], JobState.CANCELLED, "cancelled"),
]


@rows(("one", "pods", "state", "words"), JOBS)
def test_a_jobs_state_is_told_in_words(
    one: BatchJob, pods: list[ApiPod], state: JobState, words: str
) -> None:
    row = cluster_job(one, pods)
    assert (row.state, row.gpus, row.label) == (state, 2, "a1b2c3")
    assert (row.reason or "").startswith(words)
    assert (row.ended is not None) is state.is_settled
    assert read(ClusterJob, to_json(row)) == row


def test_pods_are_those_of_their_job_oldest_first() -> None:
    owner = {"kind": "Job", "name": "andon-x"}
    named = [("b", "2026-11-17T12:00:02Z"), ("a", "2026-11-17T12:00:01Z")]
    pods = [
        convert({"metadata": {"name": name, "namespace": "default", "creationTimestamp": at,
                              "ownerReferences": [owner]}}, ApiPod)
        for name, at in named
    ]  # fmt: skip
    assert [one.metadata.name for one in grouped(pods)["default/andon-x"]] == ["a", "b"]


@given(st.text(max_size=60), st.text(max_size=60))
def test_hostile_names_are_shown_as_text(name: str, message: str) -> None:
    one = pod("Pending", waiting("ImagePullBackOff", message))
    row = pod_job([one], "p")
    assert (row.reason or "").isprintable()
    noted = job((), {"andon/name": name})
    assert cluster_job(noted, []).name.isprintable()


def test_the_newest_warning_is_said() -> None:
    events = [
        ApiEvent(type="Warning", message="old", last_timestamp="2026-01-01T00:00:00Z"),
        ApiEvent(type="Warning", message="new\x1b", last_timestamp="2026-01-02T00:00:00Z"),
        ApiEvent(type="Normal", message="fine", last_timestamp="2026-01-03T00:00:00Z"),
    ]
    assert last_warning(events) == "new\\x1b"
    assert last_warning([]) == ""


def test_a_running_pod_on_a_silent_node_is_doubtful() -> None:
    assert "not known" in (lost_node(RUNS, {"g1": "not-ready"}) or "")
    assert lost_node(RUNS, {"g1": "ready"}) is None


@rows("text", ["", "x", "2026-13-01T00:00:00Z", None])
def test_what_is_no_time_is_none(text: str | None) -> None:
    assert seconds_of(text) is None


# Refusals.

FORBIDDEN = (
    'jobs.batch is forbidden: User "low" cannot list resource "jobs" in API group "batch" '
    'in the namespace "default"'
)
SAID = [
    (f"Error from server (Forbidden): {FORBIDDEN}", Denied, "low may not list jobs.batch in def"),
    ('Error from server (NotFound): jobs.batch "x" not found', Gone, "Kubernetes does not know it"),
    ('Error from server (NotFound): namespaces "x" not found', Invalid, "there is no such namesp"),
    ("Error from server (Expired): too old", ListExpired, "Kubernetes does not know it"),
    ('Error from server (AlreadyExists): "x" already exists', Conflict, "Kubernetes refuses it"),
    ("Error from server (Conflict): modified", Conflict, "Kubernetes refuses it"),
    ("Error from server (Unauthorized): x", Denied, "the login is not valid"),
    ("Error from server (TooManyRequests): x", Unavailable, "Kubernetes does not answer: it has"),
    ("Error from server (InternalError): x", Unavailable, "Kubernetes does not answer"),
    ("Error from server (BadRequest): x", Invalid, "Kubernetes refuses it"),
    ('The Job "x" is invalid: spec: Required value', Invalid, 'Kubernetes refuses it: The Job "x'),
    ("The connection to the server localhost:8080 was refused - did you specify the right host",
     Unavailable, "Kubernetes does not answer"),
    ("Unable to connect to the server: EOF", Unavailable, "Kubernetes does not answer"),
    ("Unable to connect to the server: dial tcp: lookup x: no such host", Unavailable, "Kubernet"),
    ('error: context "x" does not exist', Invalid, "kubectl has no such context"),
    ("error: You must be logged in to the server (Unauthorized)", Denied, "the login is not valid"),
    ("Unable to connect to the server: getting credentials: exec: exit 1", Denied, "the login is"),
    ("error: something else", Unavailable, "kubectl failed: something else"),
    ("", Unavailable, "kubectl failed: it gave no reason"),
]  # fmt: skip


@rows(("said", "kind", "words"), SAID)
def test_what_kubectl_says_is_one_of_our_errors(
    said: str, kind: type[AndonError], words: str
) -> None:
    found = of_kubectl(said)
    assert type(found) is kind
    assert found.reason.startswith(words)


def test_who_may_not_is_told_which_role_to_ask_for() -> None:
    found = of_kubectl(f"Error from server (Forbidden): {FORBIDDEN}")
    assert found.hint == (
        "ask for: kubectl create role andon-list-jobs --verb=list --resource=jobs.batch -n default "
        "&& kubectl create rolebinding andon-list-jobs --role=andon-list-jobs --user=low -n default"
    )
    nodes = 'User "system:serviceaccount:a:bot" cannot list resource "nodes" in API group "" at the'
    assert of_kubectl(f"Error from server (Forbidden): {nodes} cluster scope").hint == (
        "ask for: kubectl create clusterrole andon-list-nodes --verb=list --resource=nodes && "
        "kubectl create clusterrolebinding andon-list-nodes --clusterrole=andon-list-nodes "
        "--serviceaccount=a:bot"
    )


@rows(
    ("code", "body", "kind"),
    [
        (404, b'{"reason": "NotFound", "message": "x"}', Gone), (410, b"{}", ListExpired),
        (403, b"no", Denied), (409, b"[]", Conflict), (422, b"", Invalid), (500, b"x", Unavailable),
        (429, b"{}", Unavailable), (401, b"{}", Denied), (503, b"\xff\xfe", Unavailable),
    ],
)  # fmt: skip
def test_a_status_is_one_of_our_errors(code: int, body: bytes, kind: type[AndonError]) -> None:
    assert type(of_status(code, body)) is kind


@given(st.text(max_size=600))
def test_whatever_is_said_is_bounded_and_printable(said: str) -> None:
    found = of_kubectl(said)
    assert found.reason.isprintable()
    assert len(found.reason) < 500
