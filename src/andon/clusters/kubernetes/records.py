"""Writes the record of a job that has ended into its user's folder of runs, when it is next listed.

The samples are from the agent of the job's node; without one the record says why it has none. The
record stays when Kubernetes forgets the job.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from andon.errors import AndonError, Gone
from andon.fleet.node_readings import hub_of
from andon.host.files import make_private
from andon.host.state.user_folder import runs_folder
from andon.jobs.clusters.asking import uncounted
from andon.jobs.clusters.notes import recent_notes
from andon.jobs.metrics import MATCH_SECONDS, printed_lines, within
from andon.jobs.rules.metrics import compiled, found_in
from andon.jobs.rules.polling import PAST_SECONDS
from andon.model.codec import Wrong, read
from andon.model.job.cluster import ClusterJob
from andon.model.job.facts import JobState
from andon.model.job.spec import JobSpec
from andon.model.run.record import (
    RunBegin,
    RunDevice,
    RunEvent,
    RunKind,
    RunLine,
    RunSample,
    RunState,
)
from andon.node.remote.past import RemotePast
from andon.node.server import Server
from andon.runs.files import RecordFile
from andon.runs.record import RunOutcome, RunRecorder

POINTS: Final = 500
METRICS: Final = (
    "utilization_percent", "memory_used_bytes", "temperature_celsius", "power_watts",
    "memory_utilization_percent", "sm_clock_mhz",
)  # fmt: skip
NO_HUB: Final = "no hub is known that its node reports to: set hub in the cluster's options"
_STATES: Final = {
    JobState.SUCCEEDED: RunState.SUCCEEDED,
    JobState.CANCELLED: RunState.STOPPED,
    JobState.TIMED_OUT: RunState.TIMEOUT,
    JobState.LOST: RunState.LOST,
}


def keep_records(
    cluster: str, hub: str, ended: Sequence[ClusterJob], output: Callable[[str], str]
) -> None:
    """Writes the missing records of jobs that were submitted from here and have run."""
    with suppress(AndonError, OSError):
        since = min(one.submitted_at for one in ended) - PAST_SECONDS
        notes = [one for one in recent_notes(since) if one.cluster == cluster]
        specs = {one.submission.label: one.submission.job for one in notes}
        for job in ended:
            if job.label is not None and job.label in specs:
                _keep(cluster, hub, job, job.label, specs[job.label], output)


def _keep(
    cluster: str,
    hub: str,
    job: ClusterJob,
    label: str,
    spec: JobSpec,
    output: Callable[[str], str],
) -> None:
    path = runs_folder() / f"andon-{label}.jsonl"
    if path.exists():
        return
    make_private(path.parent)
    devices, samples, why_none = pod_samples(hub, job, label)
    assert job.started is not None
    begin = RunBegin(
        job.started, label, job.name[:200], RunKind.JOB, job.where or "", job.user, 0, None, None,
        devices, command=job.command, group=spec.group, tags=spec.tags, allocation_method=cluster,
        params={**spec.params, "job": f"{cluster}:{job.id}"},
    )  # fmt: skip
    half = path.with_suffix(f".{os.getpid()}")
    recorder = RunRecorder(begin, RecordFile(half), None, why_none=why_none)
    recorder.write(begin)
    for line in samples:
        recorder.add(line)
        recorder.write(line)
    ended = job.started if job.ended is None else job.ended
    for printed in _printed(spec, ended, lambda: output(job.id)) if spec.metrics else ():
        recorder.write(printed)
    state, seconds = _STATES.get(job.state, RunState.FAILED), max(0.0, ended - job.started)
    recorder.end(RunOutcome(state, job.exit_code, job.signal, job.reason, None, seconds, at=ended))
    half.rename(path)


def _printed(spec: JobSpec, ended: float, output: Callable[[], str]) -> Sequence[RunLine]:
    """Returns the figures in the output, without times: it is read only after the job has ended."""
    try:
        lines = output().replace("\r", "\n").split("\n")
    except AndonError as exc:
        return [RunEvent(ended, "--metric is not read", {"reason": exc.reason})]
    patterns = {name: compiled(name, pattern) for name, pattern in spec.metrics.items()}
    found = within(MATCH_SECONDS, lambda: found_in(lines, patterns))
    return printed_lines(found, patterns, ended)


@uncounted()
def pod_samples(
    hub: str, job: ClusterJob, label: str
) -> tuple[tuple[RunDevice, ...], list[RunSample], str | None]:
    """Returns the devices that the agent of the job's node recorded, their samples, and the reason
    if there are none."""
    node = job.where or "its node"
    try:
        server = hub_of(hub)
        if server is None:
            return (), [], NO_HUB
        agent = server.of_node(node)
        listed = agent.get("/api/runs", search=label).get("items") or []  # a hub has no records
        runs = [one for one in listed if one.get("id") == label]
        if not runs:
            return (), [], f"no andon agent on {node} recorded it"
        devices = tuple(read(list[RunDevice], runs[0].get("devices") or []))
        return devices, _samples(agent, job, devices), None
    except Gone:
        return (), [], f"no andon agent on {node} reports to the hub"
    except (AndonError, Wrong) as exc:
        return (), [], f"what the agent of {node} read is not known: {exc}"[:300]


def _samples(agent: Server, job: ClusterJob, devices: Sequence[RunDevice]) -> list[RunSample]:
    found, past = dict[float, dict[str, dict[str, object]]](), RemotePast(agent)
    assert job.started is not None
    until = job.started + 1.0 if job.ended is None else max(job.ended, job.started + 1.0)
    for device in devices:
        for metric in METRICS:
            with suppress(Gone):  # nothing was read of it
                for one in past.history(device.uuid, metric, job.started, until, POINTS):
                    if one.count:
                        row = found.setdefault(min(one.until, until), {})
                        row.setdefault(device.uuid, {"state": "ok"})[metric] = one.mean
    return [RunSample(at, found[at]) for at in sorted(found)]
