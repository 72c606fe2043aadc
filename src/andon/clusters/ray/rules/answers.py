"""What Ray's dashboard answers, as andon's values; what is not as expected is left out."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from andon.clusters.ray.rules.requests import label_of
from andon.model.job import JobState
from andon.model.job.cluster import ClusterJob, ClusterNode, ClusterReason
from andon.units import human_seconds

BUSY_PERCENT: Final = 5.0
"""Below this a GPU is idle."""
NOT_MEASURED: Final = "Ray counts GPUs; its node has no readings of them"
UNCONFIRMED: Final = "stopping: Ray has not confirmed it"
_STATES: Final = {
    "PENDING": JobState.WAITING, "RUNNING": JobState.RUNNING, "STOPPED": JobState.CANCELLED,
    "SUCCEEDED": JobState.SUCCEEDED, "FAILED": JobState.FAILED,
}  # fmt: skip
_TIMED_OUT: Final = 124
_TYPE: Final = "accelerator_type:"
_SIGNAL: Final = re.compile(r"exit code -(\d+)")
_ERRORS: Final = {
    "JOB_SUPERVISOR_ACTOR_START_TIMEOUT":
        "Ray gave up after waiting for its resources (RAY_JOB_START_TIMEOUT_SECONDS, 15 min)",
    "JOB_SUPERVISOR_ACTOR_DIED": "its node failed, or Ray's process for it was killed",
    "JOB_SUPERVISOR_ACTOR_START_FAILURE": "Ray could not start it",
    "RUNTIME_ENV_SETUP_FAILED": "its runtime_env could not be set up",
    "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE": "no node can ever meet its request",
}  # fmt: skip


def parse_jobs(value: object, nodes: Mapping[str, str]) -> list[ClusterJob]:
    """Returns all jobs of Ray's list, the oldest first; `nodes`: their names by id."""
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
    told: Mapping[str, Any] = given if isinstance(given, dict) else {}
    begun, ended = _milliseconds(row.get("start_time")), _milliseconds(row.get("end_time"))
    submitted = _number(told.get("andon_submitted")) or begun
    if submitted is None:
        return None
    node = row.get("driver_node_id")
    ran = isinstance(node, str) and bool(node)
    code = row.get("driver_exit_code")
    code = code if isinstance(code, int) and not isinstance(code, bool) else None
    number = -code if code is not None and code < 0 else None
    if state is JobState.FAILED and code == _TIMED_OUT and "andon_for" in told:
        state = JobState.TIMED_OUT
    if state is JobState.FAILED and row.get("error_type") == "JOB_SUPERVISOR_ACTOR_DIED":
        state = JobState.LOST
    settled = state.is_settled
    return ClusterJob(
        id=name,
        name=str(told.get("job_name") or name)[:200],
        state=state,
        user=str(told.get("andon_user") or "unknown")[:100],
        submitted_at=min(submitted, begun or submitted),
        gpus=_count(told.get("andon_gpus")),
        where=nodes.get(str(node), "a node that is gone") if ran else None,
        command=str(told.get("andon_command") or "")[:1000] or None,
        reason=_reason(row, state, code),
        label=label,
        array=None if index is None else name.rpartition("_")[0],
        array_index=index,
        started=begun if ran else None,
        ended=(ended or begun) if settled else None,
        exit_code=None if number or not settled else code,
        signal=number if settled and number and number < 65 else None,
        for_seconds=_number(told.get("andon_for")),
        has_log=ran and "submission_id" in row,
    )


def _reason(row: Mapping[str, Any], state: JobState, code: int | None) -> str | None:
    """Returns how a job ended, in words; None where it waits, runs or has succeeded."""
    if state in (JobState.WAITING, JobState.RUNNING, JobState.SUCCEEDED):
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
    """Returns a job that was asked to stop in this state: Ray lists one that waits until it gets
    its GPUs, starts it then and ends it."""
    if job.state is JobState.FAILED and job.exit_code is None:
        return replace(job, state=JobState.CANCELLED, reason="it was stopped")
    if job.state.is_settled or before != JobState.WAITING:
        return job
    return replace(
        job, state=JobState.CANCELLED, reason=UNCONFIRMED, ended=job.submitted_at, started=None
    )


def parse_nodes(listed: object, status: object, summary: object) -> list[ClusterNode]:
    """Returns the machines with GPUs: those of Ray's list, how many of their GPUs are given to
    work, and what Ray's own readings say of them."""
    used = _usage(status)
    readings = _readings(summary)
    found = []
    for row in node_rows(listed):
        total = _whole(_inner(row, "resources_total").get("GPU"))
        if not total:
            continue
        alive = row.get("state") == "ALIVE"
        taken = min(total, math.ceil(used.get(str(row.get("node_id")), 0.0)))
        values = readings.get(str(row.get("node_id")), {})
        missing = {} if values else {"utilization_percent": NOT_MEASURED}
        found.append(
            ClusterNode(
                name=node_name(row),
                state="ready" if alive else "dead",
                usable=alive,
                gpus=total,
                allocated=taken if alive else 0,
                free=total - taken if alive else 0,
                model=_model(_inner(row, "resources_total")),
                utilization_percent=values.get("utilization"),
                memory_percent=values.get("memory"),
                note=None if alive else str(row.get("state_message") or "")[:200] or None,
                missing=missing,
            )
        )
    return sorted(found, key=lambda node: node.name)


def node_rows(value: object) -> list[Mapping[str, Any]]:
    """Returns the rows of a list of Ray's state interface."""
    for name in ("data", "result", "result"):
        value = value.get(name) if isinstance(value, dict) else None
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def node_name(row: Mapping[str, Any]) -> str:
    return str(row.get("node_name") or row.get("node_ip") or row.get("node_id") or "node")[:100]


def node_names(listed: object) -> dict[str, str]:
    """Returns the name of each node by its id; of two that have the same, with a part of it."""
    rows = node_rows(listed)
    names = [node_name(row) for row in rows]
    return {
        str(row.get("node_id")): name
        if names.count(name) == 1
        else f"{name} ({row['node_id'][:6]})"
        for row, name in zip(rows, names, strict=True)
        if isinstance(row.get("node_id"), str)
    }


def impossible(nodes: Sequence[ClusterNode], gpus: int, model: str | None) -> str | None:
    """Returns why a request can never be met; Ray itself would let it wait without a word."""
    usable = [node for node in nodes if node.usable]
    if not usable:
        return "Ray has no node with a GPU"
    if model is not None:
        kinds = sorted({node.model for node in usable if node.model})
        usable = [node for node in usable if node.model == model]
        if not usable:
            return f"no Ray node has a {model}: there are {', '.join(kinds) or 'no models known'}"
    largest = max(usable, key=lambda node: node.gpus)
    if gpus > largest.gpus:
        return f"no Ray node has {gpus} GPUs: the largest has {largest.gpus} ({largest.name})"
    return None


def idle_node(listed: object, nodes: Sequence[ClusterNode], gpus: int) -> str | None:
    """Returns the address of the node with the most free GPUs if its GPUs are known to be idle;
    None leaves the choice to Ray."""
    fit = [
        node for node in nodes
        if node.usable and node.free >= gpus and node.utilization_percent is not None
        and node.utilization_percent < BUSY_PERCENT
    ]  # fmt: skip
    if not fit:
        return None
    best = max(fit, key=lambda node: node.free).name
    found = [row.get("node_ip") for row in node_rows(listed) if node_name(row) == best]
    return str(found[0]) if len(found) == 1 else None


def waiting_reason(
    job: ClusterJob, nodes: Sequence[ClusterNode], jobs: Iterable[ClusterJob], now: float
) -> ClusterReason:
    """Returns why a job waits: what is promised, and to whom."""
    wanted = job.gpus or 0
    why = impossible(nodes, wanted, None)
    if why is not None:
        return ClusterReason(f"{why}: it will never start", "andon cancel it; ask for fewer GPUs")
    total = sum(node.gpus for node in nodes if node.usable)
    promised = sum(node.allocated for node in nodes)
    running = [one for one in jobs if one.state is JobState.RUNNING and one.gpus]
    who = ", ".join(
        f"{one.id} {one.gpus} ({human_seconds(max(0.0, now - (one.started or now)))})"
        for one in running[:5]
    )
    text = f"{promised} of {total} GPUs are promised" + (f": {who}" if who else "")
    if promised + wanted <= total:
        free = max((node.free for node in nodes if node.usable), default=0)
        if wanted > free:
            text = f"no node has {wanted} free GPUs: the most is {free}; {text}"
        else:
            text = "Ray is starting it"
    return ClusterReason(text)


def _usage(status: object) -> dict[str, float]:
    """Returns how many GPUs of each node are given to work."""
    for name in ("data", "clusterStatus", "loadMetricsReport", "usageByNode"):
        status = status.get(name) if isinstance(status, dict) else None
    found = {}
    for node, usage in (status if isinstance(status, dict) else {}).items():
        pair = usage.get("GPU") if isinstance(usage, dict) else None
        if isinstance(pair, list) and pair and (value := _number(pair[0])) is not None:
            found[str(node)] = value
    return found


def _readings(summary: object) -> dict[str, dict[str, float]]:
    """Returns the means of each node's GPUs, as Ray's agent there has read them."""
    rows = _inner(_inner(summary, "data"), "summary", list)
    found = {}
    for row in rows if isinstance(rows, list) else []:
        node, gpus = _inner(row, "raylet").get("nodeId"), _inner(row, "gpus", list)
        busy = [
            v for one in gpus if (v := _number(_inner_value(one, "utilizationGpu"))) is not None
        ]
        memory = [
            100.0 * used / total
            for one in gpus
            if (used := _number(_inner_value(one, "memoryUsed"))) is not None
            and (total := _number(_inner_value(one, "memoryTotal")))
        ]
        if isinstance(node, str) and busy:
            found[node] = {"utilization": min(100.0, sum(busy) / len(busy))}
            if memory:
                found[node]["memory"] = min(100.0, sum(memory) / len(memory))
    return found


def _inner(value: object, name: str, kind: type = dict) -> Any:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, kind) else kind()


def _inner_value(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def _model(resources: Mapping[str, Any]) -> str | None:
    names = [name.removeprefix(_TYPE) for name in resources if name.startswith(_TYPE)]
    return names[0][:60] if names else None


def _number(value: object) -> float | None:
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and found >= 0 and not isinstance(value, bool) else None


def _milliseconds(value: object) -> float | None:
    found = _number(value)
    return None if not found else found / 1000.0


def _whole(value: object) -> int:
    return int(_number(value) or 0)


def _count(value: object) -> int | None:
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 6 else None


def _is_id(text: str) -> bool:
    return 0 < len(text) <= 300 and text.isprintable() and " " not in text
