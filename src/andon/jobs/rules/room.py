"""What a job lacks that waits for GPUs on one machine of a cluster, and until when at most."""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from andon.model.job.cluster import ClusterNode

MOST_NODES, MOST_JOBS = 4, 3


class MustEnd(Struct, frozen=True):
    """A running job whose time limit ends it."""

    job: str
    node: str
    gpus: int
    by: float


def short_words(
    gpus: int,
    nodes: Sequence[ClusterNode],
    ends: Iterable[MustEnd] = (),
    clock: Callable[[float], str] = str,
) -> str:
    """Returns what a job that waits for GPUs lacks: the nodes with the most free first, and which
    jobs must end, by when, for one of them to have room."""
    many = "s" * (gpus != 1)
    usable = sorted((n for n in nodes if n.usable), key=lambda n: (-n.free, n.name))
    if not usable:
        return f"needs {gpus} GPU{many}, and no node takes jobs"
    enough = [node for node in usable if node.free >= gpus]
    if enough:  # other jobs come first, or processors and memory are short
        return (
            f"needs {gpus} GPU{many}: {enough[0].name} has {enough[0].free} free, "
            "but other jobs come first, or processors or memory are short"
        )
    free = ", ".join(
        f"{node.name} has {node.free} free" if not place else f"{node.name} {node.free}"
        for place, node in enumerate(usable[:MOST_NODES])
    )
    left = len(usable) - MOST_NODES
    more = f" and {left} more nodes fewer" if left > 0 else ""
    first = first_room(gpus, usable, ends)
    until = "" if first is None else f"; {_names(first)} must end by {clock(first[-1].by)}"
    return f"needs {gpus} GPU{many} on one node: {free}{more}{until}"


def first_room(
    gpus: int, nodes: Sequence[ClusterNode], ends: Iterable[MustEnd]
) -> list[MustEnd] | None:
    """Returns the jobs after whose ends a node has so many GPUs, on the node where that is first;
    None if no time limits make it so."""
    found = list[list[MustEnd]]()
    in_order = sorted(ends, key=lambda one: one.by)
    for node in nodes:
        freed, before = node.free, list[MustEnd]()
        for one in (one for one in in_order if one.node == node.name):
            if freed >= gpus:
                break
            freed += one.gpus
            before.append(one)
        if freed >= gpus and before:
            found.append(before)
    return min(found, key=lambda jobs: jobs[-1].by, default=None)


def _names(jobs: Sequence[MustEnd]) -> str:
    if len(jobs) == 1:
        return f"job {jobs[0].job}"
    if len(jobs) > MOST_JOBS:
        shown = ", ".join(one.job for one in jobs[:MOST_JOBS])
        return f"jobs {shown} and {len(jobs) - MOST_JOBS} more"
    return f"jobs {', '.join(one.job for one in jobs[:-1])} and {jobs[-1].job}"
