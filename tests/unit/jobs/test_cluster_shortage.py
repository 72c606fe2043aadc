"""What a job that waits for GPUs on a cluster lacks, who has them, and who must end for it."""

import pytest
from msgspec.structs import replace

from andon.jobs.rules.shortage import (
    holder_text,
    holders_reason,
    idle_text,
    never_fits,
    shortage_reason,
    shortage_text,
)
from andon.model.job.cluster import ClusterJob, ClusterNode, GpuHolder
from andon.model.job.facts import JobState


def node(name: str, free: int, *holders: GpuHolder, usable: bool = True) -> ClusterNode:
    return ClusterNode(name, "mixed", usable, 4, 4 - free, free, holders=holders)


def ends(job: str, gpus: int, until: float | None) -> GpuHolder:
    return GpuHolder(job, gpus, until=until)


SHORT = "needs 4 GPUs on one node: n1 has 1 free, n2 0"


@pytest.mark.parametrize(
    ("gpus", "nodes", "words"),
    [
        (1, [], "needs 1 GPU, and no node takes jobs"),
        (1, [node("n1", 0, usable=False)], "needs 1 GPU, and no node takes jobs"),
        (4, [node("n2", 0), node("n1", 1)], SHORT),
        (4, [node("n2", 0), node("n1", 1, ends("5", 2, 40.0))], SHORT),  # not enough
        (4, [node("n2", 0), node("n1", 1, ends("5", 3, None))], SHORT),  # without a limit
        (4, [node("n2", 0), node("n1", 1), node("n3", 0, ends("5", 4, 40.0), usable=False)], SHORT),
        (4, [node("n2", 0), node("n1", 1, ends("5", 3, 40.0))], f"{SHORT}; job 5 must end by 40"),
        (4, [node("n2", 0, ends("6", 4, 30.0)), node("n1", 1, ends("5", 3, 40.0))],
         f"{SHORT}; job 6 must end by 30"),
        (4, [node("n2", 0), node("n1", 1, ends("5", 1, 40.0), ends("6", 1, 30.0),
                                 ends("7", 1, 50.0), ends("8", 1, 20.0))],
         f"{SHORT}; jobs 8, 6 and 5 must end by 40"),
        (5, [node("n1", 0, *(ends(str(one), 1, one) for one in range(1, 6)))],
         "needs 5 GPUs on one node: n1 has 0 free; jobs 1, 2, 3 and 2 more must end by 5"),
        (2, [node(f"n{one}", 1) for one in range(6)],
         "needs 2 GPUs on one node: n0 has 1 free, n1 1, n2 1, n3 1 and 2 more nodes fewer"),
    ],
)  # fmt: skip
def test_what_a_waiting_job_lacks_is_said(gpus: int, nodes: list[ClusterNode], words: str) -> None:
    assert shortage_text(gpus, nodes, lambda at: f"{at:.0f}") == words


WAITS = ClusterJob("9", "z", JobState.WAITING, "ada", 1.0, 4, reason="its own words", advice="x")
IDLE = GpuHolder("team-a/notebook-7", 3, 60.0, devices=(1, 2, 3), idle_gpus=3, idle_seconds=7200.0)


def test_who_leaves_gpus_idle_is_named_and_what_would_help() -> None:
    found = shortage_reason(WAITS, [node("g1", 1, IDLE), node("g2", 2)])
    assert found.text == (
        "needs 4 GPUs on one node: g2 has 2 free, g1 1; "
        "3 GPUs of g1 idle for 2 h (team-a/notebook-7)"
    )
    assert found.advice == "ask whose they are, or use --gpus 2, or x"


def test_where_there_is_room_the_cluster_knows_what_else_is_missing() -> None:
    found = shortage_reason(WAITS, [node("g1", 4)])
    assert (found.text, found.advice) == ("its own words", "x")


def test_more_than_any_node_has_is_said() -> None:
    many = replace(WAITS, gpus=16)
    cordoned, dead = node("g1", 0, usable=False), replace(node("g2", 0), state="dead", gpus=16)
    assert shortage_reason(many, [cordoned, dead]).text == (
        "no node has 16 GPUs: the largest has 4 (g1)"
    )
    assert never_fits([dead], 1) == "no node has a GPU"
    assert never_fits([cordoned], 4) is None, "it may be back"


def test_a_model_that_no_node_has_is_said_with_those_that_there_are() -> None:
    nodes = [replace(node("n1", 4), model="A100"), replace(node("n2", 4), model="H200")]
    assert never_fits(nodes, 1, "B200") == "no node has the model B200: there are A100, H200"
    unknown = [replace(one, model=None) for one in nodes]
    assert "none of its models is known" in (never_fits(unknown, 1, "B200") or "")
    assert never_fits(nodes, 8, "A100") == "no node has 8 GPUs: the largest has 4 (n1)"


def test_who_has_the_gpus_is_said_with_the_most_first() -> None:
    found = holders_reason([node("n1", 1, IDLE), node("n2", 3, GpuHolder("5", 1))], 10_860.0)
    assert found is not None
    assert found.text == "4 of 8 GPUs are given out: team-a/notebook-7 3 (3 h), 5 1"
    many = node("n1", 0, *(GpuHolder(str(one), 1) for one in range(5000)))
    found = holders_reason([many], 1.0)
    assert found is not None
    assert found.text.endswith("0 1, 1 1, 10 1, 100 1, 1000 1 and 4995 more")
    assert holders_reason([node("n1", 4)], 1.0) is None


def test_a_holder_in_a_few_words() -> None:
    assert holder_text(IDLE) == "team-a/notebook-7 (GPU 1-3, idle 2 h)"
    assert holder_text(replace(IDLE, gpus=4)) == "team-a/notebook-7 (GPU 1-3, 3 idle 2 h)"
    assert holder_text(GpuHolder("5", 2)) == "5 (2)"
    assert idle_text(node("n1", 0, GpuHolder("5", 2))) is None
