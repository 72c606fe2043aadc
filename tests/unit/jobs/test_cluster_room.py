"""What a job that waits for GPUs on a cluster lacks, and which jobs must end for it."""

import pytest

from andon.jobs.rules.room import MustEnd, short_words
from andon.model.job.cluster import ClusterNode


def node(name: str, free: int, usable: bool = True) -> ClusterNode:
    return ClusterNode(name, "mixed", usable, 4, 4 - free, free)


NODES = [node("n2", 0), node("n1", 1)]
SHORT = "needs 4 GPUs on one node: n1 has 1 free, n2 0"


@pytest.mark.parametrize(
    ("gpus", "nodes", "ends", "words"),
    [
        (1, [], [], "needs 1 GPU, and no node takes jobs"),
        (1, [node("n1", 0, usable=False)], [], "needs 1 GPU, and no node takes jobs"),
        (1, NODES, [], "needs 1 GPU: n1 has 1 free, but other jobs come first, or processors or "
         "memory are short"),
        (4, NODES, [], SHORT),
        (4, NODES, [MustEnd("5", "n1", 2, 40.0)], SHORT),  # not enough
        (4, NODES, [MustEnd("5", "n3", 4, 40.0)], SHORT),  # a node that takes no jobs
        (4, NODES, [MustEnd("5", "n1", 3, 40.0)], f"{SHORT}; job 5 must end by 40"),
        (4, NODES, [MustEnd("5", "n1", 3, 40.0), MustEnd("6", "n2", 4, 30.0)],
         f"{SHORT}; job 6 must end by 30"),
        (4, NODES, [MustEnd("5", "n1", 1, 40.0), MustEnd("6", "n1", 1, 30.0),
                    MustEnd("7", "n1", 1, 50.0), MustEnd("8", "n1", 1, 20.0)],
         f"{SHORT}; jobs 8, 6 and 5 must end by 40"),
        (5, [node("n1", 0)], [MustEnd(str(one), "n1", 1, one) for one in range(1, 6)],
         "needs 5 GPUs on one node: n1 has 0 free; jobs 1, 2, 3 and 2 more must end by 5"),
        (2, [node(f"n{one}", 1) for one in range(6)], [],
         "needs 2 GPUs on one node: n0 has 1 free, n1 1, n2 1, n3 1 and 2 more nodes fewer"),
    ],
)  # fmt: skip
def test_what_a_waiting_job_lacks_is_said(
    gpus: int, nodes: list[ClusterNode], ends: list[MustEnd], words: str
) -> None:
    assert short_words(gpus, nodes, ends, lambda at: f"{at:.0f}") == words
