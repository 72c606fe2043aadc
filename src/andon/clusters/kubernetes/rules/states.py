"""Decides which state a Job and its pod are in, and gives the reason."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from andon.clusters.kubernetes.rules.manifest import (
    CANCELLED_NOTE,
    COMMAND_NOTE,
    JOB_LABEL,
    NAME_NOTE,
    QUEUE_LABEL,
    STARTED_NOTE,
    USER_LABEL,
    is_unstarted,
    job_name,
)
from andon.clusters.kubernetes.rules.objects import (
    ApiEvent,
    ApiPod,
    BatchJob,
    ContainerStatus,
    ObjectMeta,
    RunningState,
    condition_of,
    seconds_of,
)
from andon.clusters.kubernetes.rules.quantities import pod_gpus
from andon.model.codec import LONGEST_ID
from andon.model.job.cluster import ClusterJob
from andon.model.job.desk import JobReason as Why
from andon.model.job.facts import JobState
from andon.model.redaction import redact
from andon.units import printable

LONGEST: Final = 300


_IMAGE: Final = "check the name of the image, and the rights to pull it"
WAITS: Final = {  # the reason of a container that waits, or of a pod's condition
    "ContainerCreating": Why("its container is being made"),
    "PodInitializing": Why("its init containers run"),
    "ErrImagePull": Why("its image cannot be pulled", _IMAGE),
    "ImagePullBackOff": Why("its image cannot be pulled", _IMAGE),
    "ErrImageNeverPull": Why("its image is not on the node and may not be pulled", _IMAGE),
    "InvalidImageName": Why("the name of its image is not valid", _IMAGE),
    "ImageInspectError": Why("its image cannot be read on the node", _IMAGE),
    "CreateContainerConfigError": Why(
        "its container cannot be configured", "a secret, a config map or a key of one is missing"
    ),
    "CreateContainerError": Why("its container cannot be made", "see the node's own message"),
    "RunContainerError": Why("its container cannot be started", "is the command in it?"),
    "CrashLoopBackOff": Why("it ended again and again", "andon logs shows its output"),
    "Unschedulable": Why("no node can take it now"),
    "SchedulingGated": Why("a gate of the cluster holds it", "ask your administrator"),
}
ENDS: Final = {  # the reason of a container or a pod that ended, or of a disruption
    "OOMKilled": Why(
        "it used more memory of the node than its limit", "--engine-option=memory=SIZE asks for it"
    ),
    "Evicted": Why("its node evicted it", "ask for the memory and disk it uses"),
    "Preempted": Why("a pod with a higher priority took its place", "submit it again"),
    "Preempting": Why("a pod with a higher priority took its place", "submit it again"),
    "PreemptionByScheduler": Why("a pod with a higher priority took its place", "submit it again"),
    "PreemptionByKubeScheduler": Why(
        "a pod with a higher priority took its place", "submit it again"
    ),
    "DeletionByTaintManager": Why("its node may no longer run it", "submit it again"),
    "EvictionByEvictionAPI": Why("its node is being emptied", "submit it again"),
    "DeletionByPodGC": Why("its node is gone", "submit it again"),
    "TerminationByKubelet": Why("its node ended it to protect itself", "submit it again"),
    "NodeLost": Why("its node is not heard of", "andon nodes --on shows it"),
    "NodeShutdown": Why("its node was shut down", "submit it again"),
    "Terminated": Why("its node was shut down", "submit it again"),
    "Shutdown": Why("its node was shut down", "submit it again"),
    "NodeAffinity": Why("its node does not match it any more", "submit it again"),
    "UnexpectedAdmissionError": Why("its node had no GPU for it after all", "submit it again"),
    "ContainerCannotRun": Why("its command could not be started", "is it in the image?"),
    "StartError": Why("its command could not be started", "is it in the image?"),
    "DeadlineExceeded": Why("it reached its time limit"),
    "BackoffLimitExceeded": Why("it failed"),
}
_OUT_OF: Final = "OutOf"
NOT_STARTED: Final = Why(
    "it was created and not started, because andon was interrupted",
    "andon cancel it, and submit it again",
)
QUEUED: Final = Why("its queue has not admitted it yet")
SUSPENDED: Final = Why("it is suspended", "whoever suspended it can resume it")
NO_POD: Final = Why("it has no pod yet")
NO_POD_MADE: Final = Why("its pod cannot be made", "is a quota of the namespace used up?")


def grouped(pods: Iterable[ApiPod]) -> dict[str, list[ApiPod]]:
    """Returns pods by the id of their Job, oldest first; pods without a Job by their submission's
    label or their own name."""
    found = dict[str, list[ApiPod]]()
    for pod in pods:
        meta = pod.metadata
        label = meta.label(JOB_LABEL)
        name = pod.owner or (job_name(label) if label else meta.name)
        found.setdefault(f"{meta.namespace}/{name}", []).append(pod)
    for some in found.values():
        some.sort(key=lambda pod: pod.metadata.creation_timestamp or "")
    return found


def cluster_job(job: BatchJob, pods: Sequence[ApiPod]) -> ClusterJob:
    """Returns a Job as every view shows it; `pods` are those it made, oldest first."""
    meta, pod = job.metadata, pods[-1] if pods else None
    state, why = state_of(job, pod)
    end = None if pod is None else ended_container(pod)
    template = ApiPod(spec=job.spec.template.spec)
    began = seconds_of(meta.note(STARTED_NOTE)) or started_at(pod)
    done = _ended_at(job, pod) if state.is_settled else None
    code = None if end is None or state not in (JobState.SUCCEEDED, JobState.FAILED) else end
    return _row(
        meta,
        template,
        state,
        why,
        started=began,
        ended=done if done is None or began is None else max(began, done),
        exit_code=None if code is None else code.exit_code,
        where=pod.spec.node_name if pod is not None and pod.spec.node_name else meta.namespace,
        log=pod is not None,
    )


def pod_job(pods: Sequence[ApiPod], name: str) -> ClusterJob:
    """Returns pods that were made without a Job as one job."""
    pod = pods[-1]
    state, why = pod_state(pod)
    end, began = ended_container(pod), started_at(pod)
    done = seconds_of(end.finished_at) if end is not None and state.is_settled else None
    if state.is_settled and done is None:
        done = seconds_of(pod.metadata.creation_timestamp)
    return _row(
        pod.metadata,
        pod,
        state,
        why,
        name,
        began,
        done if done is None or began is None else max(began, done),
        None if end is None or not state.is_settled else end.exit_code,
        pod.spec.node_name or pod.metadata.namespace,
    )


def service_job(service: BatchJob) -> ClusterJob:
    """Returns a Deployment or similar object without a pod as a job."""
    meta, why = service.metadata, NO_POD
    failure = condition_of(service.status.conditions, "ReplicaFailure")
    if failure is not None and failure.status == "True":
        why = _with_message(NO_POD_MADE, failure.message)
    template = ApiPod(spec=service.spec.template.spec)
    row = _row(meta, template, JobState.WAITING, why, where=meta.namespace, log=False)
    return replace(row, gpus=row.gpus or None)


def _row(
    meta: ObjectMeta,
    pod: ApiPod,
    state: JobState,
    why: Why,
    name: str = "",
    started: float | None = None,
    ended: float | None = None,
    exit_code: int | None = None,
    where: str = "",
    log: bool = True,
) -> ClusterJob:
    label = meta.label(JOB_LABEL)
    containers = pod.spec.containers or []
    argv = [*(containers[0].command or ()), *(containers[0].args or ())] if containers else []
    return ClusterJob(
        id=f"{meta.namespace}/{name or meta.name}",
        name=printable(meta.note(NAME_NOTE) or name or meta.name)[:200],
        state=state,
        user=printable(meta.label(USER_LABEL)),
        submitted_at=seconds_of(meta.creation_timestamp) or 0.0,
        gpus=sum(pod_gpus(pod).values()),
        where=printable(where),
        command=printable(meta.note(COMMAND_NOTE)) or redact(argv) or None,
        reason=why.text or None,
        label=label if 0 < len(label) <= LONGEST_ID else None,
        started=started,
        ended=ended,
        exit_code=exit_code,
        run=label if started is not None and 0 < len(label) <= LONGEST_ID else None,
        has_log=log,
        short_of_gpus=why.text.startswith(WAITS["Unschedulable"].text),
        advice=why.advice,
    )


def state_of(job: BatchJob, pod: ApiPod | None) -> tuple[JobState, Why]:
    """Returns the state of a Job by its conditions and its last pod, and the reason for it."""
    meta, status = job.metadata, job.status
    active = pod is not None and pod.status.phase not in ("Succeeded", "Failed")
    if meta.note(CANCELLED_NOTE):
        if active and started_at(pod) is not None:
            return JobState.RUNNING, Why("it is being cancelled")
        return JobState.CANCELLED, Why("cancelled")
    if (done := condition_of(status.conditions, "Complete")) and done.status == "True":
        return JobState.SUCCEEDED, Why("")
    failed = condition_of(status.conditions, "Failed")
    if failed is not None and failed.status == "True":
        if failed.reason == "DeadlineExceeded":
            return JobState.TIMED_OUT, ENDS["DeadlineExceeded"]
        if pod is not None and not active:
            return pod_state(pod)
        why = ENDS.get(failed.reason) or Why(failed.reason or "it failed")
        return JobState.FAILED, _with_message(why, failed.message)
    return _unended(job, pod)


def _unended(job: BatchJob, pod: ApiPod | None) -> tuple[JobState, Why]:
    """Returns the state of a Job that has neither succeeded nor failed."""
    spec = job.spec
    if is_unstarted(spec.parallelism, ""):
        return JobState.WAITING, NOT_STARTED
    if spec.suspend:
        return JobState.WAITING, QUEUED if job.metadata.label(QUEUE_LABEL) else SUSPENDED
    if pod is None:
        return JobState.WAITING, NO_POD
    state, why = pod_state(pod)
    if state in (JobState.FAILED, JobState.LOST) and spec.backoff_limit != 0:
        return JobState.WAITING, Why(f"it is tried again: {why.text}")
    return state, why


def pod_state(pod: ApiPod) -> tuple[JobState, Why]:
    status = pod.status
    if status.phase == "Succeeded":
        return JobState.SUCCEEDED, Why("")
    if status.phase == "Failed":
        return _failed(pod)
    if pod.metadata.deletion_timestamp and started_at(pod) is None:
        return JobState.CANCELLED, Why("its pod is being deleted")
    for one in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        waiting = one.state.waiting
        if waiting is not None and waiting.reason not in ("", "ContainerCreating"):
            why = WAITS.get(waiting.reason) or Why(waiting.reason)
            known = started_at(pod) is not None and waiting.reason == "CrashLoopBackOff"
            return JobState.RUNNING if known else JobState.WAITING, _with_message(
                why, waiting.message
            )
    if status.phase == "Running":
        if status.reason == "NodeLost":
            return JobState.RUNNING, ENDS["NodeLost"]
        return JobState.RUNNING, Why("")
    scheduled = condition_of(status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        why = WAITS.get(scheduled.reason) or Why(scheduled.reason)
        return JobState.WAITING, _with_message(why, scheduled.message)
    if pod.spec.node_name:
        return JobState.WAITING, WAITS["ContainerCreating"]
    return JobState.WAITING, Why("the scheduler has not looked at it yet")


def _failed(pod: ApiPod) -> tuple[JobState, Why]:
    status, end = pod.status, ended_container(pod)
    disrupted = condition_of(status.conditions, "DisruptionTarget")
    reasons = [status.reason, disrupted.reason if disrupted is not None else ""]
    reasons.append(end.reason if end is not None else "")
    for reason in reasons:
        if reason == "DeadlineExceeded":
            return JobState.TIMED_OUT, ENDS[reason]
        if reason.startswith(_OUT_OF) and reason != "OOMKilled":
            return JobState.FAILED, _with_message(ENDS["UnexpectedAdmissionError"], status.message)
        if reason in ENDS:
            lost = reason in ("NodeLost", "DeletionByPodGC")
            message = status.message or (end.message if end is not None else "")
            return JobState.LOST if lost else JobState.FAILED, _with_message(ENDS[reason], message)
    if end is None:
        return JobState.FAILED, _with_message(Why(status.reason or "it failed"), status.message)
    code = end.exit_code
    if code is not None and code > 128:
        return JobState.FAILED, Why(f"killed by signal {code - 128} (exit code {code})")
    return JobState.FAILED, Why(f"exit code {code}")


def ended_container(pod: ApiPod) -> RunningState | None:
    """Returns how the pod's container ended: the first that failed, else the first."""
    ends = [one.state.terminated for one in _statuses(pod) if one.state.terminated is not None]
    return next((end for end in ends if end.exit_code), ends[0] if ends else None)


def started_at(pod: ApiPod | None) -> float | None:
    """Returns when its first container began."""
    if pod is None:
        return None
    for one in _statuses(pod):
        known = one.state.running or one.state.terminated
        if known is not None and (found := seconds_of(known.started_at)) is not None:
            return found
    return None


def _statuses(pod: ApiPod) -> list[ContainerStatus]:
    return pod.status.container_statuses or []


def _ended_at(job: BatchJob, pod: ApiPod | None) -> float | None:
    failed = condition_of(job.status.conditions, "Failed")
    end = None if pod is None else ended_container(pod)
    texts = (
        job.metadata.note(CANCELLED_NOTE),
        end.finished_at if end is not None else None,
        job.status.completion_time,
        failed.last_transition_time if failed is not None else None,
        job.metadata.creation_timestamp,
    )
    return next((found for text in texts if (found := seconds_of(text)) is not None), None)


def _with_message(why: Why, message: str) -> Why:
    """Returns the reason with the cluster's own message after it, bounded and printable."""
    text = printable(message).strip()[:LONGEST]
    return Why(f"{why.text}: {text}" if text else why.text, why.advice)


def last_warning(events: Iterable[ApiEvent]) -> str:
    """Returns the text of the newest warning about an object."""
    warnings = [one for one in events if one.type == "Warning" and one.message]
    warnings.sort(key=lambda one: one.last_timestamp or "")
    return printable(warnings[-1].message)[:LONGEST] if warnings else ""


def lost_node(pod: ApiPod, states: Mapping[str, str]) -> str | None:
    """Returns what is wrong with the node of a running pod."""
    state = states.get(pod.spec.node_name)
    if state != "not-ready":
        return None
    return f"its node {pod.spec.node_name} is not heard of: whether it still runs is not known"
