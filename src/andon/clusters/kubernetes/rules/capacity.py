"""Which nodes have free GPUs, which of them are really idle, and which are best for a job."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from andon.clusters.kubernetes.rules.objects import ApiPod, KubernetesNode, condition_of
from andon.clusters.kubernetes.rules.quantities import gpus_in, pod_gpus, total
from andon.clusters.kubernetes.rules.states import started_at
from andon.jobs.rules.best_nodes import IdleLimits, best_nodes
from andon.model.job.cluster import ClusterNode, GpuHolder

ENDED: Final = ("Succeeded", "Failed")
BEST: Final = 3
"""Nodes that a job prefers."""
READY: Final = "ready"


class NodeCapacity(Struct, frozen=True):
    """A node as every view shows it, and its GPUs by the name of their resource."""

    node: ClusterNode
    has: Mapping[str, int]
    left: Mapping[str, int]
    """What a pod could still get."""

    def of(self, resource: str) -> ClusterNode:
        """Returns the node with the number of free GPUs of one kind."""
        return replace(self.node, free=self.left.get(resource, 0))


def holds_gpus(pod: ApiPod) -> bool:
    """Whether a pod has GPUs of its node, or claims on them; most have none."""
    return bool(pod_gpus(pod) or pod.spec.resource_claims)


CapacityCache = dict[str, tuple[KubernetesNode, list[ApiPod], "NodeCapacity"]]
"""By node: its object and pods at the last poll, and the capacity that followed from them."""


def capacities_of(
    nodes: Iterable[KubernetesNode], pods: Iterable[ApiPod], known: CapacityCache | None = None
) -> list[NodeCapacity]:
    """Returns the nodes with GPUs, by name. A pod that has ended holds none, although its node's
    allocatable number never changes. `known` is the cache of nodes that have not changed."""
    on = dict[str, list[ApiPod]]()
    for pod in pods:
        if pod.spec.node_name and pod.status.phase not in ENDED:
            on.setdefault(pod.spec.node_name, []).append(pod)
    before, known = known or {}, {} if known is None else known
    now, found = CapacityCache(), list[NodeCapacity]()
    for node in nodes:
        name = node.metadata.name
        placed, last = on.get(name, []), before.get(name)
        is_same = last is not None and last[0] is node and last[1] == placed
        capacity = last[2] if last is not None and is_same else _capacity(node, placed)
        now[name] = node, placed, capacity
        if capacity.has or any(pod.spec.resource_claims for pod in placed):
            found.append(capacity)
    known.clear()
    known.update(now)
    return sorted(found, key=lambda one: one.node.name)


def _capacity(node: KubernetesNode, pods: Sequence[ApiPod]) -> NodeCapacity:
    has = gpus_in(node.status.allocatable, up=False)
    needs = [(pod, found) for pod in pods if (found := pod_gpus(pod))]
    taken, gpus = total(found for _, found in needs), sum(has.values())
    state, trouble = _state(node, has)
    left = {name: max(0, count - taken[name]) for name, count in has.items()}
    left = left if state == READY else {}
    product = _label(node, "/gpu.product")
    claims = sum(bool(pod.spec.resource_claims) for pod in pods)
    special = [trouble, *_kinds(has, _label(node, "/gpu.replicas") or "1", claims)]
    shown = ClusterNode(
        node.metadata.name,
        state,
        state == READY,
        gpus,
        min(gpus, sum(taken.values())),
        sum(left.values()),
        None if product is None else _short(product),
        note="; ".join(filter(None, special)) or None,
        holders=tuple(
            GpuHolder(pod.place, sum(found.values()), started_at(pod), alias=pod.metadata.uid)
            for pod, found in needs
        ),
    )
    return NodeCapacity(shown, dict(has), left)


def _label(node: KubernetesNode, end: str) -> str | None:
    labels = (node.metadata.labels or {}).items()
    return next((value for key, value in labels if key.endswith(end)), None)


def _state(node: KubernetesNode, has: Mapping[str, int]) -> tuple[str, str | None]:
    """Returns a node's state in a word, and why it takes no pods. A taint named after its GPUs
    concerns only pods without one."""
    ready = condition_of(node.status.conditions, "Ready")
    if ready is None or ready.status != "True":
        return "not-ready", (ready.message or ready.reason if ready else "") or None
    if node.spec.unschedulable:
        return "cordoned", None
    for taint in node.spec.taints or ():
        if taint.effect in ("NoSchedule", "NoExecute") and taint.key not in has:
            return "tainted", taint.key
    return READY, None


def _short(product: str) -> str:
    """Returns `H100` for `NVIDIA-H100-80GB-HBM3`."""
    parts = product.removesuffix("-SHARED").split("-")
    found = next((word for word in parts if re.fullmatch(r"[A-Z]{1,3}\d{1,4}[A-Z]?", word)), None)
    return found or product[:40]


def _kinds(has: Mapping[str, int], replicas: str, claims: int) -> Iterator[str]:
    """Yields notes about how its GPUs are divided: if containers share a GPU, each share counts as
    one."""
    if len(has) > 1:
        yield ", ".join(f"{count} {name}" for name, count in sorted(has.items()))
    shared = int(replicas) if replicas.isdecimal() and len(replicas) < 5 else 1
    if shared > 1 or any(name.endswith(".shared") for name in has):
        share = f"{shared} pods share a GPU" if shared > 1 else "pods share GPUs"
        yield f"{share}: free is not a whole one"
    if claims:
        yield f"{claims} pods with claims, which are not counted"


# The choice.


class NodePreference(Struct, frozen=True):
    """The nodes that a job prefers, best first, and why."""

    nodes: tuple[str, ...] = ()
    text: str = ""


def usual_resource(capacities: Iterable[NodeCapacity]) -> str | None:
    """Returns the GPU resource that the cluster has most of."""
    counts = Counter[str]()
    for capacity in capacities:
        counts.update(capacity.has)
    return max(sorted(counts), key=lambda name: counts[name]) if counts else None


def placement(nodes: Sequence[ClusterNode], gpus: int, limits: IdleLimits) -> NodePreference:
    """Returns which nodes a job prefers; none if nothing is known of them."""
    if not any(node.utilization_percent is not None for node in nodes):
        return NodePreference(text="no preference: there are no readings of its nodes")
    best = best_nodes(nodes, gpus, limits)[:BEST]
    if not best:
        return NodePreference(text=f"no preference: no idle node has {gpus} free")
    text = f"prefers {best[0].name}: {best[0].free} free, really idle"
    return NodePreference(tuple(one.name for one in best), text)
