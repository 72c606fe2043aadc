"""Quantities, free and idle nodes, and the choice among them, as tables."""

from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.clusters.kubernetes.rules.capacity import (
    CapacityCache,
    NodeCapacity,
    capacities_of,
    placement,
    usual_resource,
)
from andon.clusters.kubernetes.rules.objects import (
    ApiCondition,
    ApiPod,
    KubernetesNode,
    NodeSpec,
    NodeStatus,
    NodeTaint,
    ObjectMeta,
    PodContainer,
    PodSpec,
    PodStatus,
    ResourceNeeds,
)
from andon.clusters.kubernetes.rules.quantities import count_of, is_gpu, parse_quantity, pod_gpus
from andon.jobs.rules.best_nodes import IdleLimits, best_nodes, is_idle
from andon.model.job.cluster import ClusterNode
from tests.support.rows import rows

GPU, MIG, OTHER = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "amd.com/gpu"
LIMITS = IdleLimits()
IDLE, BUSY = (5.0, 10.0), (80.0, 10.0)


@rows(
    ("text", "value"),
    [
        ("0", 0), ("8", 8), (8, 8), ("2k", 2000), ("1500m", Fraction(3, 2)), ("1Ki", 1024),
        ("1Mi", 1 << 20), ("1Gi", 1 << 30), ("1Ti", 1 << 40), ("1Pi", 1 << 50), ("1Ei", 1 << 60),
        ("1M", 10**6), ("1G", 10**9), ("1T", 10**12), ("1P", 10**15), ("1E", 10**18), ("1e3", 1000),
        ("1E3", 1000), ("2e-1", Fraction(1, 5)), ("0.5", Fraction(1, 2)), (".5", Fraction(1, 2)),
        ("5.", 5), ("+3", 3), ("-3", -3), ("100u", Fraction(1, 10_000)), ("1n", Fraction(1, 10**9)),
        (" 4 ", 4), ("", None), ("x", None), ("1kk", None), ("1 k", None), ("1Ke", None),
        ("1ki", None), ("0x10", None), ("1_000", None), ("٣", None), ("nan", None), ("inf", None),
        ("1e999", None), ("9" * 70, None), ("1.2.3", None), ("--1", None), ("m", None),
    ],
)  # fmt: skip
def test_quantities_are_read_as_kubernetes_writes_them(text: Any, value: Any) -> None:
    assert parse_quantity(text) == value


@rows(
    ("text", "up", "count"),
    [
        ("8", True, 8), ("1500m", True, 2), ("1500m", False, 1), ("1m", True, 1), ("1m", False, 0),
        ("-2", True, 0), ("x", True, 0), ("2k", False, 2000), ("1E", False, 1 << 20),
    ],
)  # fmt: skip
def test_a_part_of_a_gpu_is_one_that_is_asked_for_and_none_that_there_is(
    text: str, up: bool, count: int
) -> None:
    assert count_of(text, up) == count


@given(st.text(max_size=12) | st.floats() | st.integers())
def test_no_quantity_of_others_breaks_the_count(value: Any) -> None:
    assert 0 <= count_of(value, True) <= 1 << 20
    assert count_of(value, False) <= count_of(value, True)


@rows(
    ("name", "counts"),
    [
        (GPU, True), (OTHER, True), (MIG, True), ("nvidia.com/mig-3g.40gb", True),
        ("nvidia.com/gpu.shared", True), ("gpu.intel.com/i915", True), ("gpu.intel.com/xe", True),
        ("gpu.intel.com/i915_monitoring", False), ("example.com/gpu", True), ("cpu", False),
        ("memory", False), ("requests.nvidia.com/gpu", False), ("nvidia.com/gpumem", False),
        ("rdma/hca", False), ("hugepages-1Gi", False), ("gpu", False), ("", False),
    ],
)  # fmt: skip
def test_every_name_of_a_gpu_counts_and_no_other(name: str, counts: bool) -> None:
    assert is_gpu(name) is counts


def container(gpus: int = 0, resource: str = GPU, policy: str | None = None, **more: Any) -> Any:
    given: Any = {resource: str(gpus)} if gpus else {}
    needs = ResourceNeeds(limits=given, requests=more.get("requests"))
    return PodContainer("c", resources=needs, restart_policy=policy)


@rows(
    ("containers", "inits", "count"),
    [
        ([container(2)], [], 2), ([container(1), container(2)], [], 3), ([container()], [], 0),
        ([container(1)], [container(4)], 4), ([container(4)], [container(1), container(2)], 4),
        ([container(1)], [container(2), container(2)], 2),
        ([container(1)], [container(2, policy="Always")], 3),
        ([container(1)], [container(2, policy="Always"), container(4)], 6),
        ([container(1)], [container(4), container(2, policy="Always")], 4),
        ([container(0, requests={GPU: "2"})], [], 2), ([], [], 0),
        ([container(2, requests={GPU: "2"})], [], 2),
    ],
)  # fmt: skip
def test_a_pod_takes_what_its_containers_take_at_any_time(
    containers: list[PodContainer], inits: list[PodContainer], count: int
) -> None:
    pod = ApiPod(spec=PodSpec(containers=containers, init_containers=inits))
    assert sum(pod_gpus(pod).values()) == count


def node(name: str, gpus: Any = 4, ready: str = "True", **more: Any) -> KubernetesNode:
    return KubernetesNode(
        ObjectMeta(name, labels=more.get("labels")),
        NodeSpec(more.get("cordoned", False), more.get("taints")),
        NodeStatus({GPU: gpus, **more.get("has", {})}, [ApiCondition("Ready", ready)]),
    )


def pod(where: str, gpus: int, phase: str = "Running", **more: Any) -> ApiPod:
    spec = PodSpec(where, [container(gpus, more.get("resource", GPU))])
    return ApiPod(ObjectMeta("p", "default"), spec, PodStatus(phase))


@rows(
    ("made", "pods", "state", "free"),
    [
        (node("a"), [], "ready", 4),
        (node("a"), [pod("a", 3)], "ready", 1),
        (node("a"), [pod("a", 3, "Succeeded"), pod("a", 1, "Failed")], "ready", 4),
        (node("a"), [pod("a", 2, "Pending"), pod("b", 2)], "ready", 2),
        (node("a"), [pod("", 4, "Pending")], "ready", 4),
        (node("a"), [pod("a", 9)], "ready", 0),
        (node("a", "1500m"), [], "ready", 1),
        (node("a", "2k"), [], "ready", 2000),
        (node("a", cordoned=True), [], "cordoned", 0),
        (node("a", ready="Unknown"), [], "not-ready", 0),
        (node("a", ready="False"), [pod("a", 1)], "not-ready", 0),
        (node("a", taints=[NodeTaint("spot", "NoSchedule")]), [], "tainted", 0),
        (node("a", taints=[NodeTaint("spot", "NoExecute")]), [], "tainted", 0),
        (node("a", taints=[NodeTaint("spot", "PreferNoSchedule")]), [], "ready", 4),
        (node("a", taints=[NodeTaint(GPU, "NoSchedule")]), [], "ready", 4),
        (node("a", has={OTHER: "2"}), [pod("a", 1, resource=OTHER)], "ready", 5),
        (node("a", 0, has={MIG: "7"}), [pod("a", 2, resource=MIG)], "ready", 5),
    ],
)
def test_free_is_what_pods_that_have_not_ended_leave(
    made: KubernetesNode, pods: list[ApiPod], state: str, free: int
) -> None:
    (capacity,) = capacities_of([made], pods)
    shown = capacity.node
    assert (shown.state, shown.free) == (state, free)
    assert shown.allocated + shown.free <= shown.gpus


def test_nodes_without_gpus_are_left_out_and_others_are_in_order() -> None:
    assert [one.node.name for one in capacities_of([node("b"), node("a"), node("c", 0)], [])] == [
        "a",
        "b",
    ]


def test_a_room_is_made_again_when_its_node_or_a_pod_changed() -> None:
    nodes, known = [node("a"), node("b")], CapacityCache()
    first = capacities_of(nodes, [], known)
    again = capacities_of(nodes, [], known)
    assert [one is other for one, other in zip(again, first, strict=True)] == [True, True]
    taken = capacities_of(nodes, [pod("a", 2)], known)
    assert [one.node.free for one in taken] == [first[0].node.free - 2, first[1].node.free]
    assert [one.node.name for one in capacities_of([node("b", 1)], [], known)] == ["b"]
    assert list(known) == ["b"]


@rows(
    ("made", "words"),
    [
        (node("a", has={OTHER: "2"}), "2 amd.com/gpu, 4 nvidia.com/gpu"),
        (node("a", labels={"nvidia.com/gpu.replicas": "4"}), "4 pods share a GPU"),
        (node("a", 0, has={"nvidia.com/gpu.shared": "8"}), "pods share GPUs"),
    ],
)
def test_what_is_special_about_its_gpus_is_said(made: KubernetesNode, words: str) -> None:
    (capacity,) = capacities_of([made], [])
    assert words in (capacity.node.note or "")


@rows(
    ("product", "model"),
    [
        ("NVIDIA-H100-80GB-HBM3", "H100"), ("Tesla-T4", "T4"), ("NVIDIA-A100-SXM4-40GB", "A100"),
        ("NVIDIA-A100-SXM4-40GB-SHARED", "A100"), ("Some-Card", "Some-Card"),
        ("NVIDIA-L40S", "L40S"),
    ],
)  # fmt: skip
def test_the_model_is_short(product: str, model: str) -> None:
    (capacity,) = capacities_of([node("a", labels={"nvidia.com/gpu.product": product})], [])
    assert capacity.node.model == model


@rows(
    ("load", "memory", "idle"),
    [
        (0.0, 0.0, True), (29.9, 49.9, True), (30.0, 10.0, False), (10.0, 50.0, False),
        (None, 10.0, False), (10.0, None, False), (100.0, 100.0, False),
    ],
)  # fmt: skip
def test_idle_is_below_both_limits(load: Any, memory: Any, idle: bool) -> None:
    one = ClusterNode("a", "ready", True, 8, 0, 8, None, load, memory)
    assert is_idle(one, LIMITS) is idle


def capacity_of(name: str, has: dict[str, int]) -> NodeCapacity:
    (found,) = capacities_of([node(name, 0, has=has)], [])
    return found


def read(
    capacity: NodeCapacity, look: tuple[float, float] | None, resource: str = GPU
) -> ClusterNode:
    load, memory = look or (None, None)
    return replace(capacity.of(resource), utilization_percent=load, memory_percent=memory)


@rows(
    ("capacities", "looks", "gpus", "nodes"),
    [
        ({"a": 4, "b": 8}, {"a": IDLE, "b": IDLE}, 2, ("b", "a")),
        ({"a": 4, "b": 8}, {"a": IDLE, "b": BUSY}, 2, ("a",)),
        ({"a": 4, "b": 8}, {"a": IDLE}, 2, ("a",)),
        ({"a": 4, "b": 4}, {"a": (5.0, 20.0), "b": IDLE}, 2, ("b", "a")),
        ({"a": 4, "b": 4}, {"a": IDLE, "b": IDLE}, 2, ("a", "b")),
        ({"a": 4, "b": 1}, {"a": IDLE, "b": IDLE}, 2, ("a",)),
        ({"a": 1}, {"a": IDLE}, 2, ()),
        ({"a": 4}, {"a": BUSY}, 2, ()),
        ({"a": 4}, {}, 2, ()),
        (dict.fromkeys("abcdef", 4), dict.fromkeys("abcdef", IDLE), 2, ("a", "b", "c")),
    ],
)
def test_the_best_three_idle_nodes_are_preferred(
    capacities: dict[str, int],
    looks: dict[str, tuple[float, float]],
    gpus: int,
    nodes: tuple[str, ...],
) -> None:
    made = [
        read(capacity_of(name, {GPU: free}), looks.get(name)) for name, free in capacities.items()
    ]
    found = placement(made, gpus, LIMITS)
    assert found.nodes == nodes
    assert found.text.startswith("prefers" if nodes else "no preference: ")


def test_only_the_kind_of_gpu_that_is_asked_for_counts() -> None:
    capacity = capacity_of("a", {GPU: 1, OTHER: 8})
    assert placement([read(capacity, IDLE)], 4, LIMITS).nodes == ()
    assert placement([read(capacity, IDLE, OTHER)], 4, LIMITS).nodes == ("a",)
    assert usual_resource([capacity]) == OTHER
    assert usual_resource([]) is None


@given(st.lists(st.tuples(st.integers(0, 8), st.floats(0, 100), st.floats(0, 100)), max_size=30))
def test_no_node_that_is_left_out_is_better(values: list[tuple[int, float, float]]) -> None:
    nodes = [
        ClusterNode(f"n{place}", "ready", True, 8, 8 - free, free, None, load, memory)
        for place, (free, load, memory) in enumerate(values)
    ]
    best = best_nodes(nodes, 2, LIMITS)
    assert all(one.free >= 2 and is_idle(one, LIMITS) for one in best)
    assert [one.free for one in best] == sorted((one.free for one in best), reverse=True)
    assert len(best) == sum(one.free >= 2 and is_idle(one, LIMITS) for one in nodes)
