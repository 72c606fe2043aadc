"""Chooses the best nodes of a cluster for a job: those with room that are really idle."""

from collections.abc import Sequence

from msgspec import Struct

from andon.model.job.cluster import ClusterNode


class IdleLimits(Struct, frozen=True):
    """A node below both is idle, in percent."""

    utilization: float = 30.0
    memory: float = 50.0


def is_idle(node: ClusterNode, limits: IdleLimits) -> bool:
    """Whether a node does little; a value that is not known counts as busy."""
    load, memory = node.utilization_percent, node.memory_percent
    if load is None or memory is None:
        return False
    return load < limits.utilization and memory < limits.memory


def best_nodes(
    nodes: Sequence[ClusterNode], gpus: int, limits: IdleLimits
) -> Sequence[ClusterNode]:
    """Returns the idle nodes with room, best first: the most free GPUs, then the least memory in
    use."""
    found = [node for node in nodes if node.usable and node.free >= gpus and is_idle(node, limits)]
    return sorted(found, key=lambda one: (-one.free, one.memory_percent or 0.0, one.name))
