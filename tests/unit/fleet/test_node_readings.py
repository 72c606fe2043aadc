"""What a hub's rows and snapshots say about a cluster's node, and who leaves its GPUs idle."""

from math import inf

import pytest
from msgspec.structs import replace

from andon.cli.commands.fleet.cluster_nodes import render_nodes
from andon.fleet.rules.node_readings import (
    NO_READINGS,
    NodeDevices,
    holders_of,
    idle_seconds,
    with_reading,
)
from andon.fleet.rules.states import NodeRow, NodeState
from andon.history.rules.series import Bucket
from andon.model.device import DeviceStatus
from andon.model.job.cluster import ClusterNode, GpuHolder
from tests.support.rows import rows
from tests.support.snapshots import busy, farm, h200, work

ROW = NodeRow("n2", NodeState.HEALTHY, 2.0, gpus=4, allocated=4, utilization_percent=45.0,
              memory_percent=48.0, models={"H100": 4})  # fmt: skip
JOBS = (GpuHolder("andon-9dd1qa", 2), GpuHolder("andon-zz81xk", 2))
NODE = ClusterNode("n2", "ready", True, 4, 4, 0, who="", holders=JOBS)


def on(status: DeviceStatus, job: str) -> DeviceStatus:
    return replace(status, processes=(replace(work(9, "bob", "python", 1.0), job=job),))


DEVICES = (
    on(busy(0, 90, 9.0), "ray:andon-9dd1qa"), on(busy(1, 90, 9.0), "ray:andon-9dd1qa"),
    on(h200(2), "ray:andon-zz81xk"), on(h200(3), "ray:andon-zz81xk"),
)  # fmt: skip


def reading(
    idle: float | None, *devices: DeviceStatus, now: float = inf, node: ClusterNode = NODE
) -> ClusterNode:
    known = {one.device.uuid: idle for one in devices or DEVICES}
    snapshot = replace(farm(), devices=devices or DEVICES)
    return with_reading(node, ROW, NodeDevices(snapshot, known, now))


def test_a_row_says_how_busy_a_node_is() -> None:
    found = with_reading(replace(NODE, who=None, note="why"), replace(ROW, reason="GPU 2: hot"))
    assert (found.utilization_percent, found.memory_percent, found.model) == (45.0, 48.0, "H100")
    assert found.note == "why; GPU 2: hot"
    assert found.missing == {"temperature_celsius": "it does not report it"}
    several = replace(ROW, models={"A": 1, "B": 2})
    assert with_reading(replace(NODE, model="C"), several).model == "C"


def test_what_nobody_reads_has_a_reason() -> None:
    plain = ClusterNode("n1", "ready", True, 4, 0, 4)
    assert with_reading(plain, None).missing["utilization_percent"] == NO_READINGS
    silent = NodeRow("n1", NodeState.SILENT, 31.0)
    assert with_reading(plain, silent).missing["memory_percent"] == "its last reading is 31 s old"
    own = replace(NODE, utilization_percent=7.0, memory_percent=8.0, busy=1, read_by="Ray")
    assert with_reading(own, None) == replace(own, who="andon-9dd1qa (2), andon-zz81xk (2)")


def test_a_job_that_leaves_its_gpus_idle_is_named_with_the_time() -> None:
    found = reading(2400.0)
    assert found.who == "andon-9dd1qa (GPU 0-1), andon-zz81xk (GPU 2-3, idle 40 min)"
    assert (found.busy, found.utilization_percent, found.memory_percent) == (2, 45.0, 48.0)
    assert found.temperature_celsius is not None
    assert reading(2400.0, node=replace(NODE, who=None)).note == (
        "2 GPUs idle for 40 min (andon-zz81xk)"
    )


def test_what_is_idle_for_less_than_an_idle_lease_is_not_called_so() -> None:
    for seconds in (1799.0, None):
        assert "idle" not in (reading(seconds).who or "")
    assert "idle 30 min" in (reading(1800.0).who or "")


@pytest.mark.parametrize(("lasted", "idle"), [(6.0, False), (1799.0, False), (1800.0, True)])
@pytest.mark.parametrize("known", [True, False])
def test_a_job_has_left_idle_only_what_it_has_had(lasted: float, idle: bool, known: bool) -> None:
    """The GPUs themselves have been idle all night; its own start is known, or its process's."""
    (begun,) = {one.started for status in DEVICES for one in status.processes}
    assert begun is not None
    since = begun if known else None
    node = replace(NODE, holders=tuple(replace(one, since=since) for one in JOBS))
    found = reading(36_000.0, now=begun + lasted, node=node)
    assert ("idle 30 min" in (found.who or "")) == idle


def test_who_has_more_than_works_leaves_the_rest_idle() -> None:
    found = reading(2400.0, *DEVICES[:3], on(busy(4, 5, 9.0), "ray:andon-zz81xk"))
    assert found.who == "andon-9dd1qa (GPU 0-1), andon-zz81xk (GPU 2,4, 1 idle 40 min)"


def test_tasks_of_a_program_are_named_and_others_processes_are_not() -> None:
    devices = on(busy(0, 9, 9.0), "ray:02000000.embed"), on(busy(1, 9, 9.0), "slurm:4.0")
    found = reading(None, *devices, node=replace(NODE, holders=JOBS[:1]))
    assert found.who == "andon-9dd1qa (2), 02000000.embed (GPU 0)"


def test_a_job_of_slurm_is_found_by_the_number_of_its_step() -> None:
    node = replace(NODE, who=None, holders=(GpuHolder("4711_7", 1, alias="4718"),))
    (found,) = reading(2400.0, on(h200(2), "slurm:4718.0"), node=node).holders
    assert (found.devices, found.idle_gpus) == ((2,), 1)


# Pods, which may have no process.


def held(place: int, *containers: str) -> DeviceStatus:
    found = tuple(replace(work(9, "bob", "python", 1.0), container=one) for one in containers)
    return replace(h200(place), processes=found)


PODS = (GpuHolder("team-a/notebook-7", 3, alias="u1"), GpuHolder("b/train", 2, alias="u2"))
TEAM = ClusterNode("g1", "ready", True, 8, 5, 3, holders=PODS)
WORKS = replace(busy(5, 80, 9.0), processes=held(5, "k8s:b/train/main").processes)
NOTEBOOK, TRAIN = "team-a/notebook-7", "b/train"


@rows(
    ("devices", "idle"),
    [
        ([held(0), held(1), held(2), WORKS, WORKS], {NOTEBOOK: 3}),
        ([held(0), held(1), held(2), held(3), WORKS], {NOTEBOOK: 3, TRAIN: 1}),
        ([held(0, "k8s:team-a/notebook-7/c"), WORKS, WORKS], {NOTEBOOK: 1}),
        ([held(0), replace(WORKS, processes=held(1, "k8s:u2/3f2a").processes), WORKS],
         {NOTEBOOK: 1}),
        ([held(0), held(1), busy(2, 80, 9.0)], {}),
        ([held(0, "k8s:team-a/notebook-7/c"), busy(2, 80, 9.0)], {NOTEBOOK: 1}),
        ([held(0), held(1), replace(busy(2, 80, 9.0), pods=("b/train/main",))],
         {NOTEBOOK: 2, TRAIN: 1}),
        ([busy(place, 80, 9.0) for place in range(5)], {}),
        ([held(0), WORKS, replace(WORKS, processes=held(1, "k8s:other/x/y").processes)], {}),
    ],
)  # fmt: skip
def test_who_asks_for_more_than_works_leaves_it_idle(
    devices: list[DeviceStatus], idle: dict[str, int]
) -> None:
    known = dict.fromkeys((one.device.uuid for one in devices), 7200.0)
    snapshot = replace(farm(), devices=tuple(devices))
    found = holders_of(TEAM, NodeDevices(snapshot, known, inf))
    assert {one.name: one.idle_gpus for one in found if one.idle_gpus} == idle


@rows(
    ("buckets", "seconds"),
    [
        ([], None),
        ([Bucket(0, 10)], None),
        ([Bucket(0, 10, 5, 0, 0, 0)], 100.0),
        ([Bucket(0, 10, 5, 0, 5, 50), Bucket(10, 90, 5, 0, 0, 0)], 90.0),
        ([Bucket(0, 10, 5, 0, 5, 50), Bucket(10, 200, 5, 0, 1, 3)], 0.0),
    ],
)
def test_idle_since_the_last_work(buckets: list[Bucket], seconds: float | None) -> None:
    assert idle_seconds(buckets, 100.0) == seconds


def test_the_table_says_what_is_promised_and_what_is_busy() -> None:
    silent = replace(NODE, name="n3", state="silent", usable=False, note="it last reported …")
    unknown = with_reading(replace(NODE, name="n4"), None)
    mine = replace(NODE, name="n5", busy=1, read_by="Ray")
    shown = render_nodes([reading(2400.0), silent, unknown, mine], 110)
    lines = [line.plain.rstrip() for line in shown]
    assert lines[0].split() == ["NODE", "GPUS", "PROMISED", "REALLY", "BUSY", "MEM", "WHO"]
    assert lines[1].split()[:6] == ["n2", "4", "H100", "4", "2", "48"]
    assert lines[1].endswith("andon-9dd1qa (GPU 0-1), andon-zz81xk (GPU 2-3, idle 40 min)")
    assert "silent" in lines[2]
    assert "n/a" in lines[3]
    assert "1 by Ray" in lines[4]
    assert f"n4: {NO_READINGS}" in lines
