"""Makes an object of Kubernetes from a submission, and refuses what Kubernetes has no field for."""

import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from andon.clusters.kubernetes.rules.quantities import is_gpu, parse_quantity
from andon.errors import Invalid
from andon.jobs.rules.best_nodes import IdleLimits
from andon.model.codec import Percent, prepared
from andon.model.job.desk import Able, Submission
from andon.model.redaction import redact
from andon.settings.clusters import ClusterSettings

JOB_LABEL, RUN_LABEL, USER_LABEL = "andon/job", "andon/run", "andon/user"
NAME_NOTE, COMMAND_NOTE, PLACE_NOTE = "andon/name", "andon/command", "andon/placement"
CANCELLED_NOTE, STARTED_NOTE = "andon/cancelled", "andon/started"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
ENDED_JOB_SECONDS: Final = 7 * 86_400
"""How long an ended Job stays, where the cluster removes them."""
CONTAINER: Final = "main"
NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_LABEL: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_IMAGE: Final = re.compile(r"[A-Za-z0-9][\w.:/@+-]{0,1023}")
KINDS: Final = {  # the resource's path, and its kind
    "job": ("batch/v1", "Job"),
    "deployment": ("apps/v1", "Deployment"),
    "inferenceservice": ("serving.kserve.io/v1beta1", "InferenceService"),
}


class KubernetesOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The options of `[clusters.NAME]` of this kind; most can be set for one job as well."""

    namespace: str = ""  # empty: the context's own
    context: str = ""
    image: str = ""  # of jobs that name none
    queue: str = ""  # of Kueue, which then starts the jobs
    resource: str = ""  # what the cluster calls its GPUs; empty: what it has most of
    hub: str = ""  # the andon hub that its nodes report to
    service_account: str = ""
    cpu: str = ""
    memory: str = ""
    kind: str = "job"
    gpu_selection: bool = True
    idle_utilization: Percent = 30.0
    idle_memory: Percent = 50.0
    env: tuple[str, ...] = ()
    volume: tuple[str, ...] = ()  # CLAIM:/PATH[:ro]

    @property
    def limits(self) -> IdleLimits:
        return IdleLimits(self.idle_utilization, self.idle_memory)


_MANY, _SWITCH = ("env", "volume"), "gpu_selection"
_FOR_ALL: Final = ("context", "hub", "idle_utilization", "idle_memory")
"""Options of the table alone."""


def read_options(settings: ClusterSettings) -> KubernetesOptions:
    """Returns the options; Invalid names one that is unknown or has a wrong value."""
    known = KubernetesOptions.__struct_fields__
    for name in settings.options:
        if name not in known:
            raise Invalid(f"there is no option {name[:40]!a}", hint=", ".join(known))
    try:
        found = convert(dict(settings.options), prepared(KubernetesOptions))
    except ValidationError as exc:
        name = str(exc).rpartition("$.")[2].strip("`").partition("[")[0]
        raise Invalid(f"{name} is not as it should be: {exc}", hint=", ".join(known)) from None
    return checked(found)


def with_job_options(options: KubernetesOptions, arguments: Sequence[str]) -> KubernetesOptions:
    """Returns the options with those of one job: `memory=64Gi`, `env=NAME=VALUE`."""
    names = [one for one in KubernetesOptions.__struct_fields__ if one not in _FOR_ALL]
    for word in arguments:
        name, sign, value = word.partition("=")
        name = name.strip("-").replace("-", "_")
        if name not in names or not sign or not value.isprintable():
            raise Invalid(
                f"{word[:60]!a} is not an option here", hint=f"NAME=VALUE with {', '.join(names)}"
            )
        if name in _MANY:
            options = replace(options, **{name: (*getattr(options, name), value)})
        elif name == _SWITCH:
            if value not in ("true", "false"):
                raise Invalid(f"{name} is true or false, not {value[:40]!a}")
            options = replace(options, **{name: value == "true"})
        else:
            options = replace(options, **{name: value})
    return checked(options)


def checked(options: KubernetesOptions) -> KubernetesOptions:
    """Returns the same options; Invalid names the first value that Kubernetes would refuse."""
    small = "small letters, digits and -, at most 63"
    rules = (
        ("namespace", _is_name, f"is not a name of Kubernetes: {small}"),
        ("queue", _is_name, f"is not a name of Kubernetes: {small}"),
        ("service_account", _is_name, f"is not a name of Kubernetes: {small}"),
        ("cpu", _is_amount, "is not a quantity such as 4, 500m or 64Gi"),
        ("memory", _is_amount, "is not a quantity such as 4, 500m or 64Gi"),
        ("resource", is_gpu, "is no kind of GPU such as VENDOR.com/gpu"),
        ("kind", KINDS.__contains__, f"is none of {', '.join(KINDS)}"),
        ("env", re.compile(r"[A-Za-z_][\w.-]*=.*", re.S).fullmatch, "is not NAME=VALUE"),
        ("volume", re.compile(r"[a-z0-9][a-z0-9.-]*:/[^:]*(:ro)?").fullmatch,
         "is not CLAIM:/PATH[:ro]"),
    )  # fmt: skip
    for name, is_valid, problem in rules:
        given = getattr(options, name)
        for value in (given,) if isinstance(given, str) else given:
            if value and not (value.isprintable() and is_valid(value)):
                shown = value.partition("=")[0] if name == "env" else value
                raise Invalid(f"{name} {shown[:60]!a} {problem}")
    return options


def _is_name(text: str) -> bool:
    return NAME.fullmatch(text) is not None and len(text) <= 63


def _is_amount(text: str) -> bool:
    found = parse_quantity(text)
    return found is not None and found > 0


def job_name(label: str) -> str:
    """Returns the name of a submission's object, which follows from its label."""
    return f"andon-{label.lower()}"


def label_value(text: str) -> str:
    """Returns a text in the form of a label's value: at most 63 characters, letters and digits at
    both ends."""
    return _LABEL.sub("-", text)[:63].strip("-_.")


def path_of(kind: str, namespace: str, name: str = "") -> str:
    """Returns the path of an object, or of all of its kind."""
    group, noun = KINDS[kind]
    plural = f"{noun.lower()}s"
    return f"/apis/{group}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")


def image_of(submission: Submission, options: KubernetesOptions) -> str:
    image = str(submission.job.container.get("image") or options.image)
    if not image:
        raise Invalid("a job on Kubernetes needs an image", hint="--image IMAGE, or image = …")
    if _IMAGE.fullmatch(image) is None or image.endswith((":", "/", "@")):
        raise Invalid(f"{image[:60]!a} is not the name of an image", hint="such as pytorch:2.8")
    return image


def manifest(
    submission: Submission,
    options: KubernetesOptions,
    namespace: str,
    resource: str,
    user: str,
    preferred: Sequence[str] = (),
    placed: str = "",
) -> dict[str, Any]:
    """Returns the object that is created: a Job that waits to be started, or what `kind` names."""
    job, label = submission.job, submission.label
    labels = {JOB_LABEL: label, RUN_LABEL: label, USER_LABEL: label_value(user) or "unknown"}
    notes = {NAME_NOTE: job.name, COMMAND_NOTE: redact(job.argv), PLACE_NOTE: placed}
    group, kind = KINDS[options.kind]
    pod = _pod(submission, options, resource, preferred)
    queued = {QUEUE_LABEL: options.queue} if options.queue else {}
    head = {
        "apiVersion": group,
        "kind": kind,
        "metadata": {
            "name": job_name(label),
            "namespace": namespace,
            "labels": {**labels, **queued},
            "annotations": {name: value for name, value in notes.items() if value},
        },
    }
    template = {"metadata": {"labels": labels, "annotations": {NAME_NOTE: job.name}}, "spec": pod}
    if options.kind == "deployment":
        chosen = {"matchLabels": {JOB_LABEL: label}}
        return {**head, "spec": {"replicas": 1, "selector": chosen, "template": template}}
    if options.kind == "inferenceservice":
        return {**head, "spec": {"predictor": {"labels": labels, **pod}}}
    # A Job is created asleep and started by a second request: one whose answer was lost never runs.
    # Kueue starts its own by `suspend`, and counts the pods before.
    held = {"parallelism": 1, "suspend": True} if options.queue else {"parallelism": 0}
    spec = {
        **held,
        "completions": 1,
        "backoffLimit": job.retries,
        "ttlSecondsAfterFinished": ENDED_JOB_SECONDS,
        "template": template,
    }
    return {**head, "spec": spec}


def _pod(
    submission: Submission, options: KubernetesOptions, resource: str, preferred: Sequence[str]
) -> dict[str, Any]:
    job, request = submission.job, submission.job.request
    more = {"cpu": options.cpu, "memory": options.memory}
    requested = {name: value for name, value in more.items() if value}
    resources: dict[str, Any] = {"limits": {resource: request.least}}
    if requested:
        resources["requests"] = requested
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": image_of(submission, options),
        "command": [_unexpanded(word) for word in job.argv],
        "resources": resources,
        "env": [
            dict(zip(("name", "value"), _unexpanded(one).split("=", 1), strict=True))
            for one in options.env
        ],
    }
    if job.container.get("pull") == "missing":
        container["imagePullPolicy"] = "IfNotPresent"
    pod: dict[str, Any] = {"containers": [container]}
    if options.volume:
        container["volumeMounts"], pod["volumes"] = _volumes(options.volume)
    if options.kind == "job":
        pod["restartPolicy"] = "Never"
        if job.for_seconds is not None:
            pod["activeDeadlineSeconds"] = max(1, -int(-job.for_seconds // 1))
    if job.grace_seconds is not None:
        pod["terminationGracePeriodSeconds"] = max(1, -int(-job.grace_seconds // 1))
    if options.service_account:
        pod["serviceAccountName"] = options.service_account
    if user := job.container.get("user"):
        pod["securityContext"] = {"runAsUser": int(str(user))}
    if preferred:
        pod["affinity"] = affinity(preferred)
    return pod


def _unexpanded(text: str) -> str:
    """Escapes a text for a container: Kubernetes replaces `$(NAME)` by a value, and `$$` by `$`."""
    return text.replace("$", "$$")


def affinity(preferred: Sequence[str]) -> dict[str, Any]:
    """Returns a preference for these nodes, strongest for the first; the scheduler may decide
    otherwise."""
    terms = [
        {
            "weight": 100 - 30 * place,
            "preference": {
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]
            },
        }
        for place, node in enumerate(preferred)
    ]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def _volumes(arguments: Sequence[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    mounts, volumes = list[dict[str, Any]](), list[dict[str, Any]]()
    for place, word in enumerate(arguments):
        claim, path, *readonly = word.split(":")
        name = f"volume-{place}"
        mounts.append({"name": name, "mountPath": path, "readOnly": bool(readonly)})
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim}})
    return mounts, volumes


ABLE: Final = frozenset({
    Able.ENGINE_OPTIONS, Able.IMAGE, Able.METRICS, Able.PREVIEW, Able.RETRIES, Able.RETRY_LOST,
})  # fmt: skip
_COUNTS: Final = "Kubernetes counts GPUs and chooses them"
INSTEAD: Final = {
    Able.AFTER: "a Job starts at once: wait with andon jobs wait, or use a workflow engine",
    Able.BEGIN: "a CronJob starts at a time",
    Able.ARRAY: "andon map --on makes a job for each item",
    Able.PER_GPU: "start the processes in the command itself",
    Able.CHECK: "an init container checks them: deploy/kubernetes/check.yaml",
    Able.MEMORY: f"{_COUNTS}: see resource for parts of one",
    Able.SHARED: f"{_COUNTS}: see resource for shared ones",
    Able.MODEL: f"{_COUNTS}: it prefers nodes and requires none",
    Able.DEVICES: _COUNTS,
    Able.EVERY_GPU: "name a number",
    Able.GPU_RANGE: "name one number",
    Able.PRIORITY: "the cluster's priority classes are its own",
    Able.RETRY_OOM: "use --retries",
    Able.CHECKPOINT: "--for ends it with SIGTERM, and --grace",
    Able.TIMEOUT: "andon cancel it",
    Able.STOP_WHEN: "nothing of andon runs in a pod: andon cancel it",
    Able.BIND: "the kubelet binds by its own policy",
    Able.MOUNTS: "--engine-option=volume=CLAIM:/PATH",
    Able.CONTAINER_OPTIONS: "see --engine-option",
    Able.USER_BY_NAME: "name it by its number",
}
"""What Kubernetes does not support, and what to use instead."""


def refuse_limit_of_service(submission: Submission, options: KubernetesOptions) -> None:
    if options.kind != "job" and submission.job.for_seconds is not None:
        raise Invalid(
            "Kubernetes does not take --for with this kind", hint="it is a service: cancel it"
        )


def is_unstarted(parallelism: int | None, cancelled: str) -> bool:
    """Whether a Job was created but never started, because the second request was not sent."""
    return parallelism == 0 and not cancelled


def started(job: dict[str, Any]) -> dict[str, Any]:
    """Returns the Job with the change that starts it."""
    return {**job, "spec": {**job["spec"], "parallelism": 1}}


def cancelled(job: dict[str, Any], now: str, began: str) -> dict[str, Any]:
    """Returns the Job with the change that ends it; it stays, so that its end is known."""
    meta = job["metadata"]
    notes = {**(meta.get("annotations") or {}), CANCELLED_NOTE: now}
    if began:
        notes[STARTED_NOTE] = began
    spec = {**job["spec"], "parallelism": 0, "activeDeadlineSeconds": 1}
    return {**job, "metadata": {**meta, "annotations": notes}, "spec": spec}
