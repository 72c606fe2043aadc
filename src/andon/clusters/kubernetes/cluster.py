"""Submits jobs to Kubernetes and reads them. Its scheduler decides; andon states a preference."""

import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from msgspec.structs import replace

from andon.clusters.kubernetes.listing import FollowedList, list_all, parsed, with_query
from andon.clusters.kubernetes.logs import JobLogs
from andon.clusters.kubernetes.rules import capacity as placing
from andon.clusters.kubernetes.rules import manifest as made
from andon.clusters.kubernetes.rules import states
from andon.clusters.kubernetes.rules.capacity import NodeCapacity, NodePreference
from andon.clusters.kubernetes.rules.manifest import JOB_LABEL, USER_LABEL, KubernetesOptions
from andon.clusters.kubernetes.rules.objects import (
    ApiEvent,
    ApiPod,
    BatchJob,
    KubernetesNode,
    condition_of,
)
from andon.clusters.kubernetes.services import service_of, services_without_pods
from andon.clusters.kubernetes.transport import transport_of
from andon.errors import AndonError, Conflict, Denied, Gone, Invalid, Unavailable
from andon.fleet.node_readings import read_nodes
from andon.host.users import user_name
from andon.jobs.clusters.notes import forget_note
from andon.model.job.cluster import ClusterJob, ClusterNode, NoteFolder, NotSent
from andon.model.job.desk import LogPart, Submission
from andon.model.job.facts import JobState
from andon.model.vendors import VENDORS
from andon.settings.clusters import ClusterSettings
from andon.units import sh

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
RUNNING: Final = "status.phase!=Succeeded,status.phase!=Failed"
FIGURES_BYTES: Final = 4 << 20  # of the end of an output, which is searched for figures
TRIES: Final = 4
"""How often a change is tried that conflicts with someone else's."""
OFF: Final = NodePreference(text="no preference: GPU selection is off")


class KubernetesCluster:
    """Implements ports.Cluster and Previewing by the API of a cluster."""

    title, able, instead = "Kubernetes", made.ABLE, made.INSTEAD
    shared_folder: str | None = None
    notes: NoteFolder | None = None

    def __init__(self, settings: ClusterSettings) -> None:
        self._options, self._name = made.read_options(settings), settings.name
        self._seconds = settings.timeout_seconds
        self._transport = transport_of(self._options, self._seconds)
        self._lists = dict[str, FollowedList[Any]]()
        self._logs, self._known_namespace = JobLogs(self._transport), self._options.namespace
        self._user = user_name(os.getuid())
        self._placed = dict[str, str]()
        self._recorded, self._capacity_cache = set[str | None](), placing.CapacityCache()

    # The port.

    @property
    def identity(self) -> str:
        return self._transport.identity

    def submit(self, submission: Submission, again: bool = False) -> str:
        options = made.with_job_options(self._options, submission.options)
        try:
            namespace, body = self._manifest(submission, options)
        except Unavailable as exc:
            raise NotSent(exc.reason, exc.hint) from exc
        name, path = made.job_name(submission.label), made.path_of(options.kind, namespace)
        try:
            found = self._object("POST", path, body)
        except Conflict:
            found = self._object("GET", f"{path}/{name}")
            if _labels(found).get(JOB_LABEL) != submission.label:
                raise
        except Gone as exc:
            kind = made.KINDS[options.kind][1]
            raise Invalid(f"this cluster has no {kind}", hint="use --kind job") from exc
        if options.kind == "job" and not options.queue:
            self._start(f"{path}/{name}", found)
        self._forget()
        return f"{namespace}/{name}"

    def jobs(self, since: float, everyone: bool = False) -> Sequence[ClusterJob]:
        namespace = self._namespace()
        jobs = self._list(made.path_of("job", namespace), BatchJob)
        pods = states.grouped(self._list(f"/api/v1/namespaces/{namespace}/pods", ApiPod))
        found = list[ClusterJob]()
        for job in jobs:
            key = f"{job.metadata.namespace}/{job.metadata.name}"
            row = states.cluster_job(job, pods.pop(key, []))
            if self._is_meant(job.metadata.label(USER_LABEL), row, everyone):
                found.append(row)
        for key, some in pods.items():
            row = states.pod_job(some, key.partition("/")[2])
            if not some[-1].owner and self._is_meant(
                some[-1].metadata.label(USER_LABEL), row, everyone
            ):
                found.append(row)
        labels = {row.label for row in found}
        found += services_without_pods(self._name, self._options, self._transport, labels)
        found = [row for row in found if row.ended is None or row.ended > since]
        self._record([row for row in found if row.state.is_settled and row.run])
        return found

    def cancel(self, ids: Sequence[str]) -> None:
        unknown: AndonError | None = None
        for job in ids:
            try:
                self._cancel(*self._parts(job))
            except (Gone, Invalid) as exc:
                unknown = unknown or exc
        self._forget()
        if unknown is not None:
            raise unknown

    def log(self, job: str, start: int | None, most_bytes: int) -> LogPart:
        found, pods = self._find(job)
        settled = found.state.is_settled
        if settled and not pods and found.started is not None:
            raise Gone(f"the pod of {job} was removed, and its output with it")
        return self._logs.read(pods, start, most_bytes, settled)

    def nodes(self) -> Sequence[ClusterNode]:
        return [capacity.node for capacity in self._capacities()]

    def job(self, job: str) -> ClusterJob:
        found, pods = self._find(job)
        pod = pods[-1] if pods else None
        if found.state is JobState.RUNNING and found.reason is None and pod is not None:
            return replace(found, reason=self._trouble(pod), advice="andon nodes --on shows it")
        if found.state in (JobState.RUNNING, JobState.SUCCEEDED) or found.short_of_gpus:
            return found
        warning, text = self._event(found, pod), found.reason or ""
        if warning and warning not in text:
            text = f"{text}: {warning}" if text else warning
        return replace(found, reason=text or None)

    # What else it can do.

    def preview(self, submission: Submission) -> str:
        options = made.with_job_options(self._options, submission.options)
        body = self._manifest(submission, options, dry=True)[1]
        return json.dumps(body, indent=2, ensure_ascii=False) + "\n"

    def placed(self, submission: Submission) -> str:
        return self._placed.get(submission.label, "")

    # Changing.

    def _manifest(
        self, submission: Submission, options: KubernetesOptions, dry: bool = False
    ) -> tuple[str, dict[str, Any]]:
        made.refuse_limit_of_service(submission, options)
        made.image_of(submission, options)
        namespace, capacities = options.namespace or "default", list[NodeCapacity]()
        # Without the right to list nodes the kind of GPU is named, or is the usual one.
        with suppress(AndonError if dry else Denied):
            namespace = options.namespace or self._namespace()
            capacities = self._capacities()
        usual = placing.usual_resource(capacities) or f"{VENDORS[0].name}.com/gpu"
        resource, gpus = options.resource or usual, submission.job.request.least
        placed = OFF
        if options.gpu_selection:
            nodes = [one.of(resource) for one in capacities]
            read = read_nodes(options.hub, nodes, details=False)
            placed = placing.placement(read, gpus, options.limits)
        self._placed[submission.label] = placed.text
        return namespace, made.manifest(
            submission, options, namespace, resource, self._user, placed.nodes, placed.text
        )

    def _start(self, path: str, job: dict[str, Any]) -> None:
        """Starts a Job that was created suspended; one that has been started or cancelled stays as
        it is."""
        for _ in range(TRIES):
            notes = job["metadata"].get("annotations") or {}
            if not made.is_unstarted(
                job["spec"].get("parallelism"), notes.get(made.CANCELLED_NOTE, "")
            ):
                return
            try:
                self._object("PUT", path, made.started(job))
            except Conflict:
                job = self._object("GET", path)
            else:
                return
        raise Unavailable("its Job was changed by others again and again")

    def _cancel(self, namespace: str, name: str) -> None:
        path = made.path_of("job", namespace, name)
        for _ in range(TRIES):
            try:
                job = self._object("GET", path)
            except Gone:
                self._delete_service(namespace, name)
                return
            known = parsed(BatchJob, json.dumps(job).encode())
            ended = (condition_of(known.status.conditions, one) for one in ("Complete", "Failed"))
            notes = job["metadata"].get("annotations") or {}
            if made.CANCELLED_NOTE in notes or any(one and one.status == "True" for one in ended):
                return
            pods = self._pods_of(namespace, name)
            began = next((at for pod in pods if (at := states.started_at(pod)) is not None), None)
            body = made.cancelled(job, _stamp(time.time()), "" if began is None else _stamp(began))
            try:
                self._object("PUT", path, body)
            except Conflict:
                continue
            return
        raise Unavailable("its Job was changed by others again and again")

    def _delete_service(self, namespace: str, name: str) -> None:
        """Deletes the Deployment or InferenceService of a submission; Gone if there is none."""
        if (service := service_of(self._transport, namespace, name)) is not None:
            path, found = service
            self._object("DELETE", path)
            forget_note(found.metadata.label(JOB_LABEL))
            return
        if self._pods_of(namespace, name):
            raise Invalid(
                f"{namespace}/{name} is no job of andon's",
                hint=f"kubectl delete pod -n {sh(namespace)} {sh(name)}",
            )
        raise Gone(f"Kubernetes knows no job {namespace}/{name}"[:200])

    def _object(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        text = "" if body is None else json.dumps(body)
        found: dict[str, Any] = parsed(dict[str, Any], self._transport.ask(method, path, text))
        return found

    def _record(self, ended: Sequence[ClusterJob]) -> None:
        """Writes the missing records of jobs that have ended since the last call."""
        new = [one for one in ended if one.run not in self._recorded]
        if new:
            from andon.clusters.kubernetes.records import keep_records  # most lists do not need it

            def output(job: str) -> str:
                return self.log(job, None, FIGURES_BYTES).text

            keep_records(self._name, self._options.hub, new, output)
            self._recorded.update(one.run for one in new)

    # Reading.

    def _namespace(self) -> str:
        self._known_namespace = self._known_namespace or self._transport.namespace()
        return self._known_namespace

    def _parts(self, job: str) -> tuple[str, str]:
        """Splits an id into the namespace and the name."""
        namespace, sign, name = job.rpartition("/")
        if made.NAME.fullmatch(name) is None or (sign and not made.NAME.fullmatch(namespace)):
            raise Gone(f"{job[:60]!a} is not the name of a job", hint="NAMESPACE/NAME")
        return namespace or self._namespace(), name

    def _list(
        self, path: str, kind: type[Any], keep: Callable[[Any], object] | None = None, **query: str
    ) -> Sequence[Any]:
        key = with_query(path, **query)
        if key not in self._lists:
            self._lists[key] = FollowedList(self._transport, path, kind, keep, **query)
        return self._lists[key].items()

    def _forget(self) -> None:
        for one in self._lists.values():
            one.forget()

    def _is_meant(self, user: str, row: ClusterJob, everyone: bool) -> bool:
        """Whether a job is listed: with `everyone`, if it is this user's, or if it uses GPUs and
        was submitted without andon."""
        if not row.gpus and row.label is None:
            return False
        return everyone or user in ("", made.label_value(self._user))

    def _find(self, job: str) -> tuple[ClusterJob, list[ApiPod]]:
        namespace, name = self._parts(job)
        pods = self._pods_of(namespace, name)
        try:
            body = self._transport.ask("GET", made.path_of("job", namespace, name))
        except Gone:
            if pods:
                return states.pod_job(pods, name), pods
            if (service := service_of(self._transport, namespace, name)) is not None:
                return states.service_job(service[1]), pods
            raise Gone(
                f"Kubernetes knows no job {namespace}/{name}"[:200],
                hint="it forgets jobs some time after they end",
            ) from None
        return states.cluster_job(parsed(BatchJob, body), pods), pods

    def _pods_of(self, namespace: str, name: str) -> list[ApiPod]:
        path = f"/api/v1/namespaces/{namespace}/pods"
        label = name.removeprefix("andon-")
        selector = {"labelSelector": f"{JOB_LABEL}={label}"} if label != name else {}
        found = list_all(self._transport, path, ApiPod, **selector)[0]
        return states.grouped(found).get(f"{namespace}/{name}", [])

    def _capacities(self) -> list[NodeCapacity]:
        with ThreadPoolExecutor(1) as pool:  # both lists are requested at the same time
            nodes = pool.submit(self._list, NODES, KubernetesNode)
            pods = self._list(PODS, ApiPod, placing.holds_gpus, fieldSelector=RUNNING)
            return placing.capacities_of(nodes.result(), pods, self._capacity_cache)

    def _trouble(self, pod: ApiPod) -> str | None:
        """Returns what is wrong with the node of a job that runs."""
        return states.lost_node(pod, {node.name: node.state for node in self.nodes()})

    def _event(self, job: ClusterJob, pod: ApiPod | None) -> str:
        """Returns the newest warning about the pod, or about the Job if it has no pod."""
        namespace, name = self._parts(job.id)
        about = name if pod is None else pod.metadata.name
        path, selector = f"/api/v1/namespaces/{namespace}/events", f"involvedObject.name={about}"
        try:
            return states.last_warning(
                list_all(self._transport, path, ApiEvent, fieldSelector=selector)[0]
            )
        except AndonError:
            return ""


def _labels(found: dict[str, Any]) -> dict[str, str]:
    labels = found.get("metadata", {}).get("labels")
    return labels if isinstance(labels, dict) else {}


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
