"""Parses the jobs of Ray's dashboard; rows in another form are left out."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from andon.clusters.ray.rules.nodes import number_of
from andon.clusters.ray.rules.requests import label_of
from andon.model.job.cluster import ClusterJob
from andon.model.job.facts import JobState
from andon.units import whole_number

UNCONFIRMED: Final = "stopping: Ray has not confirmed it"
_STATES: Final = {
    "PENDING": JobState.WAITING, "RUNNING": JobState.RUNNING, "STOPPED": JobState.CANCELLED,
    "SUCCEEDED": JobState.SUCCEEDED, "FAILED": JobState.FAILED,
}  # fmt: skip
_TIMED_OUT: Final = 124
_ERRORS: Final = {
    "JOB_SUPERVISOR_ACTOR_START_TIMEOUT":
        "Ray gave up after waiting for its resources (RAY_JOB_START_TIMEOUT_SECONDS, 15 min)",
    "JOB_SUPERVISOR_ACTOR_DIED": "its node failed, or Ray's process for it was killed",
    "JOB_SUPERVISOR_ACTOR_START_FAILURE": "Ray could not start it",
    "RUNTIME_ENV_SETUP_FAILED": "its runtime_env could not be set up",
    "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE": "no node can ever meet its request",
}  # fmt: skip


def parse_jobs(value: object, nodes: Mapping[str, str]) -> list[ClusterJob]:
    """Returns all jobs of Ray's list, the oldest first; `nodes` has the nodes' names by id."""
    rows = value if isinstance(value, list) else []
    found = [job for row in rows if isinstance(row, dict) and (job := _job(row, nodes)) is not None]
    return sorted(found, key=lambda job: job.submitted_at)


def _job(row: Mapping[str, Any], nodes: Mapping[str, str]) -> ClusterJob | None:
    name = row.get("submission_id") or row.get("job_id")
    state = _STATES.get(str(row.get("status")))
    if not isinstance(name, str) or state is None or not _is_id(name):
        return None
    label, index = label_of(name)
    given = row.get("metadata")
    metadata: Mapping[str, Any] = given if isinstance(given, dict) else {}
    begun, ended = _milliseconds(row.get("start_time")), _milliseconds(row.get("end_time"))
    submitted = number_of(metadata.get("andon_submitted")) or begun
    if submitted is None:
        return None
    node = row.get("driver_node_id")
    ran = isinstance(node, str) and bool(node)
    code = row.get("driver_exit_code")
    code = code if isinstance(code, int) and not isinstance(code, bool) else None
    number = -code if code is not None and code < 0 else None
    if state is JobState.FAILED and code == _TIMED_OUT and "andon_for" in metadata:
        state = JobState.TIMED_OUT
    if state is JobState.FAILED and row.get("error_type") == "JOB_SUPERVISOR_ACTOR_DIED":
        state = JobState.LOST
    settled = state.is_settled
    return ClusterJob(
        id=name,
        name=str(metadata.get("job_name") or name)[:200],
        state=state,
        user=str(metadata.get("andon_user") or "unknown")[:100],
        submitted_at=min(submitted, begun or submitted),
        gpus=whole_number(str(metadata.get("andon_gpus")), 5),
        where=nodes.get(str(node), "a node that is gone") if ran else None,
        command=str(metadata.get("andon_command") or "")[:1000] or None,
        reason=_reason(row, state, code),
        label=label,
        array=None if index is None else name.rpartition("_")[0],
        array_index=index,
        started=begun if ran else None,
        ended=(ended or begun) if settled else None,
        exit_code=None if number or not settled else code,
        signal=number if settled and number and number < 65 else None,
        for_seconds=number_of(metadata.get("andon_for")),
        has_log=ran and "submission_id" in row,
        short_of_gpus=state is JobState.WAITING,
    )


def _reason(row: Mapping[str, Any], state: JobState, code: int | None) -> str | None:
    """Returns why a job waits or how it ended; None while it runs and if it has succeeded."""
    if state is JobState.WAITING:
        return "Ray has not started it yet"
    if state in (JobState.RUNNING, JobState.SUCCEEDED):
        return None
    if state is JobState.CANCELLED:
        return "it was stopped"
    if state is JobState.TIMED_OUT:
        return "its time (--for) was over"
    known = _ERRORS.get(str(row.get("error_type")))
    if known is not None:
        return known
    if code is not None:
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    lines = [line.strip() for line in str(row.get("message") or "").splitlines() if line.strip()]
    return (lines[-1] if lines else "Ray does not say why")[:300]


def stopped(job: ClusterJob, before: str) -> ClusterJob:
    """Returns a job with its stop request. Ray keeps a waiting job in its list until it gets its
    GPUs, then starts and ends it."""
    if job.state is JobState.FAILED and job.exit_code is None:
        return replace(job, state=JobState.CANCELLED, reason="it was stopped")
    if job.state.is_settled or before != JobState.WAITING:
        return job
    return replace(
        job,
        state=JobState.CANCELLED,
        reason=UNCONFIRMED,
        ended=job.submitted_at,
        started=None,
        short_of_gpus=False,
    )


def _milliseconds(value: object) -> float | None:
    found = number_of(value)
    return None if not found else found / 1000.0


def _is_id(text: str) -> bool:
    return 0 < len(text) <= 300 and text.isprintable() and " " not in text
