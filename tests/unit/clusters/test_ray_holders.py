"""Who has the GPUs that Ray promised, and which nodes and jobs leave them idle."""

import pytest
from msgspec.structs import replace

from andon.cli.commands.fleet.cluster_nodes import render_nodes
from andon.clusters.ray.rules.holders import (
    MOST_NAMED,
    NodeReading,
    promised_to,
    reading_of,
    waiting_reason,
    with_reading,
    with_users,
)
from andon.clusters.ray.rules.nodes import NOT_MEASURED, host_names, impossible, parse_nodes
from andon.fleet.rules.states import NodeRow, NodeState
from andon.model.device import DeviceStatus
from andon.model.job.cluster import ClusterJob, ClusterNode
from andon.model.job.facts import JobState
from tests.support.snapshots import busy, farm, h200, work

ROW = NodeRow("n2", NodeState.HEALTHY, 2.0, 4, 4, 45.0, 48.0)
NODE = ClusterNode("n2", "ready", True, 4, 4, 0, who="")


def on(status: DeviceStatus, job: str) -> DeviceStatus:
    return replace(status, processes=(replace(work(9, "bob", "python", 1.0), job=job),))


DEVICES = (
    on(busy(0, 90, 9.0), "ray:andon-9dd1qa"), on(busy(1, 90, 9.0), "ray:andon-9dd1qa"),
    on(h200(2), "ray:andon-zz81xk"), on(h200(3), "ray:andon-zz81xk"),
)  # fmt: skip
JOBS = [
    ClusterJob("andon-9dd1qa", "a", JobState.RUNNING, "ada", 1.0, 2, "n2", started=10_441.0),
    ClusterJob("andon-zz81xk", "b", JobState.RUNNING, "bob", 1.0, 2, "n2", started=1.0),
]
WAITS = ClusterJob("andon-k3fh2m", "c", JobState.WAITING, "ada", 1.0, 2)


def reading(idle_seconds: float | None, *devices: DeviceStatus) -> NodeReading:
    idle = {one.device.uuid: idle_seconds for one in DEVICES[2:]}
    return reading_of(ROW, replace(farm(), devices=devices or DEVICES), idle)


def test_a_job_that_leaves_its_gpus_idle_is_named_with_the_time() -> None:
    found = reading(2400.0)
    node = with_users(with_reading(NODE, found), JOBS, found)
    assert node.who == "andon-9dd1qa (GPU 0-1), andon-zz81xk (GPU 2-3, idle 40 min)"
    assert (node.busy, node.utilization_percent, node.memory_percent) == (2, 45.0, 48.0)
    why = waiting_reason(WAITS, [node], JOBS, 10_801.0, {"n2": found})
    assert why.text == (
        "4 of 4 GPUs are promised: andon-9dd1qa 2 (6 min), "
        "andon-zz81xk 2 (3 h, 0 % busy for 40 min)"
    )


def test_what_is_idle_for_less_than_an_idle_lease_is_not_called_so() -> None:
    for seconds in (1799.0, None):
        found = reading(seconds)
        assert "idle" not in (with_users(NODE, JOBS, found).who or "")
        assert "busy" not in waiting_reason(WAITS, [NODE], JOBS, 9.0, {"n2": found}).text
    assert "idle 30 min" in (with_users(NODE, JOBS, reading(1800.0)).who or "")


@pytest.mark.parametrize(("lasted", "idle"), [(6.0, False), (1799.0, False), (1800.0, True)])
def test_a_job_has_left_idle_only_what_it_has_had(lasted: float, idle: bool) -> None:
    """The GPUs themselves have been idle all night."""
    (begun,) = {one.started for status in DEVICES for one in status.processes}
    assert begun is not None
    past = {one.device.uuid: 36_000.0 for one in DEVICES[2:]}
    found = reading_of(ROW, replace(farm(), devices=DEVICES), past, begun + lasted)
    assert ("idle 30 min" in (with_users(NODE, JOBS, found).who or "")) == idle


def test_one_of_its_gpus_at_work_is_enough() -> None:
    found = reading(2400.0, *DEVICES[:3], on(busy(4, 5, 9.0), "ray:andon-zz81xk"))
    assert with_users(NODE, JOBS, found).who == "andon-9dd1qa (GPU 0-1), andon-zz81xk (GPU 2,4)"


def test_tasks_of_a_program_are_named_and_others_processes_are_not() -> None:
    devices = on(busy(0, 9, 9.0), "ray:02000000.embed"), on(busy(1, 9, 9.0), "slurm:4.0")
    found = reading(None, *devices)
    assert with_users(NODE, JOBS[:1], found).who == "andon-9dd1qa (2), 02000000.embed (GPU 0)"


def listed(*names: str) -> dict[str, object]:
    rows = [
        {"node_id": name * 4, "node_name": name, "state": "ALIVE", "resources_total": {"GPU": 4.0}}
        for name in names
    ]
    return {"data": {"result": {"result": rows}}}


def summary(**ages: float) -> dict[str, object]:
    rows = [
        {"now": 1000.0 - age, "hostname": f"{name}.lab", "gpus": [{"utilizationGpu": 40}],
         "raylet": {"nodeId": name * 4, "nodeName": name}}
        for name, age in ages.items()
    ]  # fmt: skip
    return {"data": {"summary": rows}}


def test_a_node_that_reports_nothing_is_silent_before_ray_knows() -> None:
    told = summary(n1=0.0, n2=9.0)
    one, other = parse_nodes(listed("n1", "n2"), None, told)
    assert (one.state, one.usable, one.busy, one.read_by) == ("ready", True, 1, "Ray")
    assert (other.state, other.usable, other.free) == ("silent", False, 0)
    assert other.note == "it last reported 9 s ago; Ray still counts on it"
    assert [node.state for node in parse_nodes(listed("n1"), None, summary(n1=500.0))] == ["ready"]
    assert impossible([other], 4, None) is None, "it may be back"
    assert host_names(told) == {"n1": "n1.lab", "n2": "n2.lab"}


def test_the_table_says_what_is_promised_and_what_is_busy() -> None:
    found = reading(2400.0)
    one = with_users(with_reading(NODE, found), JOBS, found)
    silent = replace(NODE, name="n3", state="silent", usable=False, note="it last reported …")
    unknown = replace(NODE, name="n4", missing={"busy": NOT_MEASURED})
    mine = replace(NODE, name="n5", busy=1, read_by="Ray")
    lines = [line.plain.rstrip() for line in render_nodes([one, silent, unknown, mine], 110)]
    assert lines[0].split() == ["NODE", "GPUS", "PROMISED", "REALLY", "BUSY", "MEM", "WHO"]
    assert lines[1].split()[:5] == ["n2", "4", "4", "2", "48"]
    assert lines[1].endswith("andon-9dd1qa (GPU 0-1), andon-zz81xk (GPU 2-3, idle 40 min)")
    assert "silent" in lines[2]
    assert "n/a" in lines[3]
    assert "1 by Ray" in lines[4]
    assert f"n4: {NOT_MEASURED}" in lines


def test_the_reason_of_one_that_waits_looks_at_few_of_thousands() -> None:
    assert promised_to([WAITS, *JOBS * 5000]) == (JOBS * 5)[:MOST_NAMED]
