"""Ranks are one run, and the first of a node samples its devices."""

import pytest

from andon.runs.rules.ranks import RankPlace, rank_place
from tests.support.rows import rows

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
SRUN = {
    "SLURM_JOB_ID": "42", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_LOCALID": "1",
    "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
}  # fmt: skip
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}  # fmt: skip


@rows(
    ("variables", "place"),
    [
        ({}, RankPlace()),
        ({**TORCHRUN, "TORCHELASTIC_RUN_ID": "exp7"}, RankPlace("torchrun:exp7", 5, 16, 1, 4)),
        ({**TORCHRUN, "TORCHELASTIC_RUN_ID": "none"}, RankPlace("launcher:L", 5, 16, 1, 4)),
        (TORCHRUN, RankPlace("launcher:L", 5, 16, 1, 4)),
        (SRUN, RankPlace("slurm:42.0", 3, 8, 1, 4)),
        # One torchrun a node, started by srun: the step is common to all of them.
        ({**SRUN, **TORCHRUN, "TORCHELASTIC_RUN_ID": "none"}, RankPlace("slurm:42.0", 5, 16, 1, 4)),
        # The batch script of a job, outside any step.
        ({"SLURM_JOB_ID": "42", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, RankPlace()),
        (OPENMPI, RankPlace("launcher:L", 2, 4, 0, 2)),
        ({**OPENMPI, "PMIX_NAMESPACE": "prterun-1@1"}, RankPlace("mpi:prterun-1@1", 2, 4, 0, 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, RankPlace("launcher:L", 1, 2, None, None)),
        ({"RANK": "x", "WORLD_SIZE": "2"}, RankPlace()),
        ({"RANK": "١", "WORLD_SIZE": "2"}, RankPlace()),
    ],
)
def test_the_innermost_launcher_says_what_a_process_is(
    variables: dict[str, str], place: RankPlace
) -> None:
    assert rank_place(variables, "L") == place


@pytest.mark.parametrize(
    ("place", "visible", "samples"),
    [
        (RankPlace(), 8, True),
        (RankPlace("g", 0, 8, 0, 8), 8, True),
        (RankPlace("g", 8, 16, 0, 8), 8, True),  # the first rank of the second node
        (RankPlace("g", 3, 8, 3, 8), 8, False),
        (RankPlace("g", 3, 8, 3, 8), 1, True),  # each has a device of its own
        (RankPlace("g", 1, 2, None, None), 8, True),  # which node it is on is not known
        (RankPlace("g", 3, 8, 3, None), 8, False),
    ],
)
def test_devices_are_sampled_once_on_each_node(
    place: RankPlace, visible: int, samples: bool
) -> None:
    why = place.sampled_by_another(visible)
    assert (why is None) == samples
    assert why is None or "local rank 0 samples" in why
