"""Parses Ray's nodes: their GPUs, how many are in use and what Ray measures; chooses a node for a
request."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from andon.jobs.rules.shortage import DEAD
from andon.model.job.cluster import ClusterJob, ClusterNode, GpuHolder, SubmissionNote
from andon.model.job.desk import Submission
from andon.model.job.facts import JobState
from andon.model.utilisation import ZERO_READING
from andon.units import human_seconds

BUSY_PERCENT: Final = 5.0
"""Below this a GPU is idle."""
SILENT: Final = "silent"
SILENT_SECONDS: Final = 8.0
"""Nodes report every 2.5 s, and later where their machine is full."""
_TYPE: Final = "accelerator_type:"
MOST_NODES: Final = 1000
"""How many nodes are requested from Ray."""


def parse_nodes(listed: object, status: object, summary: object) -> list[ClusterNode]:
    """Returns the machines with GPUs in Ray's list, how many of their GPUs are in use, and Ray's
    own readings of them."""
    used, readings, silent = _usage(status), _readings(summary), _silent(summary)
    hosts = _host_names(summary)
    found = []
    for row in node_rows(listed):
        total = int(number_of(_inner(row, "resources_total").get("GPU")) or 0)
        if not total:
            continue
        lasted = silent.get(str(row.get("node_id")))
        alive = row.get("state") == "ALIVE" and lasted is None
        note = str(row.get("state_message") or "")[:200] or None
        if lasted is not None and row.get("state") == "ALIVE":
            note = f"it last reported {human_seconds(lasted)} ago; Ray still counts on it"
        taken = min(total, math.ceil(used.get(str(row.get("node_id")), 0.0)))
        values = readings.get(str(row.get("node_id")), {})
        found.append(
            ClusterNode(
                name=node_name(row),
                state="ready" if alive else DEAD if row.get("state") != "ALIVE" else SILENT,
                usable=alive,
                gpus=total,
                allocated=taken if alive else 0,
                free=total - taken if alive else 0,
                model=_model(_inner(row, "resources_total")),
                utilization_percent=values.get("utilization"),
                memory_percent=values.get("memory"),
                note=None if alive else note,
                busy=None if "busy" not in values else int(values["busy"]),
                read_by="Ray" if values else None,
                who="",
                host=hosts.get(node_name(row)),
            )
        )
    return sorted(found, key=lambda node: node.name)


def node_rows(value: object) -> list[Mapping[str, Any]]:
    """Returns the rows of a list of Ray's state interface."""
    for name in ("data", "result", "result"):
        value = value.get(name) if isinstance(value, dict) else None
    rows = value[:MOST_NODES] if isinstance(value, list) else []
    return [row for row in rows if isinstance(row, dict)]


def node_name(row: Mapping[str, Any]) -> str:
    return str(row.get("node_name") or row.get("node_ip") or row.get("node_id") or "node")[:100]


def node_names(listed: object) -> dict[str, str]:
    """Returns the name of each node by its id; names that occur twice get a part of the id."""
    rows = node_rows(listed)
    names = [node_name(row) for row in rows]
    times = Counter(names)
    return {
        str(row.get("node_id")): name if times[name] == 1 else f"{name} ({row['node_id'][:6]})"
        for row, name in zip(rows, names, strict=True)
        if isinstance(row.get("node_id"), str)
    }


def holders_on(node: str, jobs: Sequence[ClusterJob]) -> tuple[GpuHolder, ...]:
    """Returns the running jobs that have GPUs of a node."""
    return tuple(
        GpuHolder(one.id, one.gpus, one.started)
        for one in jobs
        if one.gpus and one.where == node and one.state is JobState.RUNNING
    )


def idle_node(
    nodes: Sequence[ClusterNode], submission: Submission, uncounted: int
) -> ClusterNode | None:
    """Returns the node with the fewest free GPUs that are enough and known to be idle, so that
    larger ones stay whole; None leaves the choice to Ray. `uncounted`: GPUs of jobs that may be on
    any node and that Ray may not count yet."""
    request = submission.job.request
    wanted = request.least * max(1, len(submission.indices)) + uncounted
    fit = [
        node for node in nodes
        if node.usable and node.free >= wanted and node.utilization_percent is not None
        and node.utilization_percent < BUSY_PERCENT
        and (not request.models or node.model == request.models[0])
    ]  # fmt: skip
    return min(fit, key=lambda node: node.free, default=None)


def just_sent(notes: Iterable[SubmissionNote], cluster: str, label: str) -> int:
    """Returns how many GPUs this user's other recent submissions to this cluster requested."""
    others = [n.submission for n in notes if n.cluster == cluster and n.submission.label != label]
    return sum(one.job.request.least * max(1, len(one.indices)) for one in others)


def address_of(listed: object, node: str) -> str | None:
    """Returns the address of a node; None if it is not unique."""
    rows = [row for row in node_rows(listed) if row.get("state") == "ALIVE"]
    found = [row.get("node_ip") for row in rows if node_name(row) == node]
    alone = len(found) == 1 and [row.get("node_ip") for row in rows].count(found[0]) == 1
    return str(found[0]) if alone and found[0] else None


def _usage(status: object) -> dict[str, float]:
    """Returns how many GPUs of each node are in use by work."""
    for name in ("data", "clusterStatus", "loadMetricsReport", "usageByNode"):
        status = status.get(name) if isinstance(status, dict) else None
    found = {}
    for node, usage in (status if isinstance(status, dict) else {}).items():
        pair = usage.get("GPU") if isinstance(usage, dict) else None
        if isinstance(pair, list) and pair and (value := number_of(pair[0])) is not None:
            found[str(node)] = value
    return found


def _readings(summary: object) -> dict[str, dict[str, float]]:
    """Returns the means of each node's GPUs, as Ray's agent there has read them."""
    rows = _inner(_inner(summary, "data"), "summary", list)
    found = {}
    for row in rows if isinstance(rows, list) else []:
        node, gpus = _inner(row, "raylet").get("nodeId"), _inner(row, "gpus", list)
        busy = [
            v for one in gpus if (v := number_of(_inner_value(one, "utilizationGpu"))) is not None
        ]
        memory = [
            100.0 * used / total
            for one in gpus
            if (used := number_of(_inner_value(one, "memoryUsed"))) is not None
            and (total := number_of(_inner_value(one, "memoryTotal")))
        ]
        if isinstance(node, str) and busy:
            found[node] = {
                "utilization": min(100.0, sum(busy) / len(busy)),
                "busy": sum(value > ZERO_READING for value in busy),
            }
            if memory:
                found[node]["memory"] = min(100.0, sum(memory) / len(memory))
    return found


def _silent(summary: object) -> dict[str, float]:
    """Returns how long late nodes have not reported, by the newest node's clock. Ray itself notices
    after a quarter of a minute."""
    found = {}
    for row in _inner(_inner(summary, "data"), "summary", list):
        node, at = _inner(row, "raylet").get("nodeId"), number_of(_inner_value(row, "now"))
        if isinstance(node, str) and at is not None:
            found[node] = at
    newest = max(found.values(), default=0.0)
    return {node: newest - at for node, at in found.items() if newest - at > SILENT_SECONDS}


def _host_names(summary: object) -> dict[str, str]:
    """Returns the name of each node's machine, which is its own name for andon there."""
    rows = _inner(_inner(summary, "data"), "summary", list)
    pairs = ((_inner(row, "raylet").get("nodeName"), _inner_value(row, "hostname")) for row in rows)
    return {str(name): str(host) for name, host in pairs if name and host}


def _inner(value: object, name: str, kind: type = dict) -> Any:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, kind) else kind()


def _inner_value(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def _model(resources: Mapping[str, Any]) -> str | None:
    names = [name.removeprefix(_TYPE) for name in resources if name.startswith(_TYPE)]
    return names[0][:60] if names else None


def number_of(value: object) -> float | None:
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and found >= 0 and not isinstance(value, bool) else None
