"""Submits jobs to Ray and reads it, each request within the cluster's time limit.

Ray hands out GPU numbers without looking at the GPUs, lets a request wait that can never be met,
and keeps no record. andon adds these three.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from msgspec.structs import replace

from andon.clusters.ray.dashboard import RayDashboard
from andon.clusters.ray.logs import RayOutput
from andon.clusters.ray.rules import answers, requests
from andon.clusters.ray.rules.nodes import (
    address_of,
    holders_on,
    idle_node,
    just_sent,
    node_names,
    parse_nodes,
)
from andon.clusters.ray.rules.requests import JobsAndon, submission_id
from andon.errors import AndonError, Conflict, Gone, Unavailable
from andon.fleet.node_readings import read_nodes
from andon.host.files import make_private, read_regular
from andon.host.interpreter import interpreter
from andon.host.state.user_folder import runs_folder, state_folder
from andon.jobs.clusters.notes import recent_notes
from andon.jobs.folder import write_whole
from andon.jobs.rules.cluster_task import task_of
from andon.jobs.rules.shortage import never_fits
from andon.model import wire
from andon.model.job.cluster import ClusterJob, ClusterNode, ClusterTask, NoteFolder, NotSent
from andon.model.job.desk import LogPart, Submission
from andon.settings.clusters import ClusterSettings
from andon.standalone import STANDALONE
from andon.units import sh
from andon.version import __version__

JOBS = "/api/jobs/"
STATUS, SUMMARY = "/api/cluster_status", "/nodes?view=summary"
STREAM, FILE = "/api/v0/logs/stream", "/api/v0/logs/file"
CONFIRM_SECONDS: Final = 30.0
"""A cluster that has just started may lose a job: it counts as accepted once it is listed."""
ASK_AGAIN_SECONDS: Final = 0.3
UNCOUNTED_SECONDS: Final = 30.0
"""Ray counts the GPUs of a job some seconds after it has taken it, on a full machine later."""
MOST_OUTPUTS: Final = 8
STOPPED: Final = ".stopped"
_MARK_BYTES: Final = 64


class RayCluster:
    """Implements ports.Cluster and Previewing with Ray's dashboard."""

    title, able, instead = "Ray", requests.ABLE, requests.INSTEAD
    shared_folder: str | None = None

    def __init__(self, settings: ClusterSettings) -> None:
        self._options, self._name = requests.read_options(settings), settings.name
        self._ray = RayDashboard(self._options.address, settings.timeout_seconds)
        logs, seconds = self._options.logs, settings.timeout_seconds
        self._notes = Path(logs).expanduser() if logs else state_folder() / "clusters" / self._name
        self.notes: NoteFolder | None = NoteFolder(str(self._notes), own=False)  # Ray's own user
        self._confirm_seconds = min(CONFIRM_SECONDS, 0.8 * seconds)
        self._outputs: dict[str, RayOutput] = {}
        self._placed: dict[str, str] = {}

    # The port.

    @property
    def identity(self) -> str:
        return self._ray.address

    def submit(self, submission: Submission, again: bool = False) -> str:
        name, node = self._node_for(submission)
        self._placed[submission.label] = name
        for index in submission.indices or (None,):
            self._submit(self._body(submission, node, index))
        return submission_id(submission.label)

    def jobs(self, since: float, everyone: bool = False) -> Sequence[ClusterJob]:
        found = map(self._stopped, self._all(self._ray.nodes()))
        return [job for job in found if job.ended is None or job.ended > since]

    def job(self, job: str) -> ClusterJob:
        found = [one for one in self._all(self._ray.nodes()) if job in (one.id, one.array)]
        if not found:
            raise Gone(f"Ray knows no job {job[:60]}")
        return self._stopped(next((one for one in found if not one.state.is_settled), found[0]))

    def cancel(self, ids: Sequence[str]) -> None:
        unknown = None
        for one in ids:
            for job in self._of_array(one) or [one]:
                try:
                    self._stop(job)
                except Gone as exc:
                    unknown = unknown or exc
        if unknown is not None:
            raise unknown

    def log(self, job: str, start: int | None, most_bytes: int) -> LogPart:
        row = self._ray.get(JOBS + quote(job, safe=""))
        parsed = answers.parse_jobs([row], {})
        if not parsed or not isinstance(row, dict):
            raise Unavailable("Ray's answer about this job is not as expected")
        found = parsed[0]
        settled = self._stopped(found).state.is_settled
        if not found.has_log:
            return LogPart(0, 0, "", settled)
        output = self._outputs.get(job)
        if output is None or not output.has(start):
            self._drop(job)
            query = {"node_id": row["driver_node_id"], "filename": f"job-driver-{job}.log",
                     "lines": -1}  # fmt: skip
            path = FILE if settled else STREAM  # only the latter takes an interval
            more = "" if settled else "&interval=0.5"
            stream = self._ray.stream(f"{path}?{urlencode(query)}{more}")
            output = self._outputs[job] = RayOutput(stream, str(row.get("entrypoint")))
            for old in list(self._outputs)[:-MOST_OUTPUTS]:
                self._drop(old)
        return output.read(start, most_bytes, settled)

    def nodes(self) -> Sequence[ClusterNode]:
        listed = self._ray.nodes()
        jobs = self._all(listed)
        return [replace(one, holders=holders_on(one.name, jobs)) for one in self._nodes(listed)]

    def preview(self, submission: Submission) -> str:
        index = submission.indices[0] if submission.indices else None
        node = None
        with suppress(Unavailable):  # then Ray chooses
            node = self._node_for(submission)[1]
        body = self._body(submission, node, index)
        return f"POST {JOBS}\n{wire.dumps(body, indented=True)}\n"

    def placed(self, submission: Submission) -> str:
        node = self._placed.get(submission.label)
        return f"it is for {node}, whose GPUs are free and idle" if node else ""

    # Reading Ray.

    def _all(self, listed: object) -> list[ClusterJob]:
        return answers.parse_jobs(self._ray.get(JOBS), node_names(listed))

    def _nodes(self, listed: object) -> list[ClusterNode]:
        status: object = None
        summary: object = None
        with suppress(AndonError):  # an older Ray, or one whose readings are slow
            status = self._ray.get(STATUS)
        with suppress(AndonError):
            summary = self._ray.get(SUMMARY)
        return parse_nodes(listed, status, summary)

    def _of_array(self, job: str) -> list[str]:
        """Returns the elements of an array; none for a single job."""
        label, index = requests.label_of(job)
        if label is None or index is not None:
            return []
        return [one.id for one in self._all(None) if one.array == job]

    def _stopped(self, job: ClusterJob) -> ClusterJob:
        """Adds to a job's reason that it was asked to stop, if it was."""
        if job.label is None:
            return job
        with suppress(OSError):
            before = read_regular(self._notes / (job.id + STOPPED), _MARK_BYTES, own=True)
            return answers.stopped(job, before.decode(errors="replace"))
        return job

    # Changing Ray's jobs.

    def _submit(self, body: wire.Json) -> None:
        """Submits one job, and makes sure that Ray has it: a known id is answered with an error,
        and right after a cluster's start a job may be lost."""
        until, path = time.monotonic() + self._confirm_seconds, JOBS + body["submission_id"]
        while True:
            trouble: AndonError | None = None
            try:
                self._ray.post(JOBS, body)
            except Unavailable as exc:
                trouble = exc
            try:
                self._ray.get(path)
            except Gone:
                if time.monotonic() > until:
                    raise trouble or Unavailable("Ray took the job and does not list it") from None
                time.sleep(ASK_AGAIN_SECONDS)
            else:
                return

    def _stop(self, job: str) -> None:
        path = JOBS + quote(job, safe="")
        before = answers.parse_jobs([self._ray.get(path)], {})
        self._ray.post(f"{path}/stop")
        if not before or before[0].state.is_settled or before[0].label is None:
            return
        with suppress(OSError):  # without it the job is shown as Ray lists it
            make_private(self._notes)
            write_whole(self._notes, job + STOPPED, before[0].state, sync=False)

    def _node_for(self, submission: Submission) -> tuple[str, str | None]:
        """Returns name and address of the node to put a job on; an empty name leaves the choice to
        Ray. Refuses what can never start."""
        requests.refuse_long_array(submission)
        try:
            listed = self._ray.nodes()
            nodes = read_nodes(self._options.hub, self._nodes(listed), details=False)
        except Unavailable as exc:
            raise NotSent(exc.reason, exc.hint) from exc
        self._refuse_impossible(submission, nodes)
        notes = recent_notes(time.time() - UNCOUNTED_SECONDS)
        sent = just_sent(notes, self._name, submission.label)
        best = idle_node(nodes, submission, sent)
        address = None if best is None else address_of(listed, best.name)
        return best.name if best is not None and address else "", address

    def _refuse_impossible(self, submission: Submission, nodes: Sequence[ClusterNode]) -> None:
        request = submission.job.request
        model = request.models[0] if request.models else None
        why = never_fits(nodes, request.least, model)
        if why is not None:
            most = max((node.gpus for node in nodes if node.usable), default=0)
            hint = f"andon nodes --on {sh(self._name)} lists what there is"
            if 0 < most < request.least:
                hint = f"--gpus {most}, or a placement over nodes from your own Ray program"
            raise Conflict(why, hint=hint)

    def _body(self, submission: Submission, node: str | None, index: int | None) -> wire.Json:
        script = str(STANDALONE / "cluster_start.py")
        installed = JobsAndon(interpreter(), script, __version__)
        task = self._task(submission)
        return requests.request_of(submission, self._options, task, installed, node, index)

    def _task(self, submission: Submission) -> ClusterTask:
        with suppress(OSError):
            make_private(self._notes)
        return task_of(submission, self._name, str(self._notes), str(runs_folder()))

    def _drop(self, job: str) -> None:
        if (old := self._outputs.pop(job, None)) is not None:
            old.close()
