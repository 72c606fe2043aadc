"""Explains what a job that waits for GPUs lacks on one machine of a cluster, and who has them."""

from collections.abc import Callable, Sequence
from typing import Final

from andon.model.job.cluster import ClusterJob, ClusterNode, GpuHolder
from andon.model.job.desk import JobReason
from andon.model.place import cpu_list
from andon.units import counted, human_seconds

MOST_NODES, MOST_JOBS = 4, 3
DEAD: Final = "dead"
"""The state of a node that will not come back."""


def never_fits(nodes: Sequence[ClusterNode], gpus: int, model: str | None = None) -> str | None:
    """Returns why no node can ever meet a request; None if one can, when it is free."""
    some = [node for node in nodes if node.state != DEAD]
    if not some:
        return "no node has a GPU"
    if model is not None:
        kinds = sorted({node.model for node in some if node.model})
        some = [node for node in some if node.model == model]
        if not some:
            known = f"there are {', '.join(kinds)}" if kinds else "none of its models is known"
            return f"no node has the model {model}: {known}"
    largest = max(some, key=lambda node: node.gpus)
    if gpus <= largest.gpus:
        return None
    return f"no node has {gpus} GPUs: the largest has {largest.gpus} ({largest.name})"


def shortage_reason(
    job: ClusterJob, nodes: Sequence[ClusterNode], clock: Callable[[float], str] = str
) -> JobReason:
    """Returns why a job still waits for GPUs, and what would help. If a node has enough free GPUs,
    that is the cluster's own reason."""
    gpus = job.gpus or 0
    if job.reason and any(node.usable and node.free >= gpus for node in nodes):
        return JobReason(job.reason, job.advice)
    if (never := never_fits(nodes, gpus)) is not None:
        return JobReason(never, "andon cancel it, and ask for fewer GPUs")
    idle = [one for node in nodes if (one := idle_text(node, f" of {node.name}"))]
    text = "; ".join([shortage_text(gpus, nodes, clock), *idle[:MOST_NODES]])
    most = max((node.free for node in nodes if node.usable), default=0)
    advice = ["ask whose they are"] if idle else []
    advice += [f"use --gpus {most}"] if 0 < most < gpus else []
    return JobReason(text, ", or ".join([*advice, job.advice] if job.advice else advice))


def shortage_text(
    gpus: int, nodes: Sequence[ClusterNode], clock: Callable[[float], str] = str
) -> str:
    """Returns what a job that waits for GPUs lacks: the nodes with the most free ones first, and
    which jobs must end, by when, to make one node large enough."""
    wanted = f"needs {counted(gpus, 'GPU')}"
    usable = sorted((n for n in nodes if n.usable), key=lambda n: (-n.free, n.name))
    if not usable:
        return f"{wanted}, and no node takes jobs"
    free = ", ".join(
        f"{node.name} has {node.free} free" if not place else f"{node.name} {node.free}"
        for place, node in enumerate(usable[:MOST_NODES])
    )
    left = len(usable) - MOST_NODES
    more = f" and {left} more nodes fewer" if left > 0 else ""
    first = first_enough(gpus, usable)
    until = "" if first is None else f"; {_names(first)} must end by {clock(_end(first[-1]))}"
    return f"{wanted} on one node: {free}{more}{until}"


def first_enough(gpus: int, nodes: Sequence[ClusterNode]) -> list[GpuHolder] | None:
    """Returns the jobs that must end to free so many GPUs on one node, for the node where that
    happens first; None if time limits do not tell."""
    found = list[list[GpuHolder]]()
    for node in nodes:
        freed, before = node.free, list[GpuHolder]()
        for one in sorted((one for one in node.holders if one.until), key=_end):
            if freed >= gpus:
                break
            freed += one.gpus
            before.append(one)
        if freed >= gpus and before:
            found.append(before)
    return min(found, key=lambda jobs: _end(jobs[-1]), default=None)


def _end(holder: GpuHolder) -> float:
    return holder.until or 0.0


def _names(jobs: Sequence[GpuHolder]) -> str:
    if len(jobs) == 1:
        return f"job {jobs[0].name}"
    if len(jobs) > MOST_JOBS:
        shown = ", ".join(one.name for one in jobs[:MOST_JOBS])
        return f"jobs {shown} and {len(jobs) - MOST_JOBS} more"
    return f"jobs {', '.join(one.name for one in jobs[:-1])} and {jobs[-1].name}"


# Who has a node's GPUs.


def idle_text(node: ClusterNode, of: str = "") -> str | None:
    """Returns `3 GPUs idle for 2 h (team-a/notebook-7)`; `of` follows the number."""
    idle = [one for one in node.holders if one.idle_gpus]
    if not idle:
        return None
    gpus = min(node.gpus, sum(one.idle_gpus for one in idle))
    lasted = human_seconds(min(one.idle_seconds or 0.0 for one in idle))
    names = ", ".join(one.name for one in idle[:MOST_JOBS])
    return f"{counted(gpus, 'GPU')}{of} idle for {lasted} ({names})"


def holder_text(holder: GpuHolder) -> str:
    """Returns `andon-zz81xk (GPU 2-3, idle 40 min)`, or with their number alone."""
    details = f"GPU {cpu_list(holder.devices)}" if holder.devices else str(holder.gpus)
    if holder.idle_gpus:
        some = f"{holder.idle_gpus} " if holder.idle_gpus < holder.gpus else ""
        details += f", {some}idle {human_seconds(holder.idle_seconds or 0.0)}"
    return f"{holder.name} ({details})"


def holders_reason(nodes: Sequence[ClusterNode], now: float) -> JobReason | None:
    """Returns who has the GPUs and for how long, those with the most first."""
    holders = sorted(
        (one for node in nodes for one in node.holders), key=lambda one: (-one.gpus, one.name)
    )
    if not holders:
        return None
    shares = [
        f"{one.name} {one.gpus}"
        + ("" if one.since is None else f" ({human_seconds(max(0.0, now - one.since))})")
        for one in holders[: MOST_NODES + 1]
    ]
    more = f" and {left} more" if (left := len(holders) - len(shares)) > 0 else ""
    given, total = (sum(getattr(n, name) for n in nodes) for name in ("allocated", "gpus"))
    return JobReason(f"{given} of {total} GPUs are given out: {', '.join(shares)}{more}")
