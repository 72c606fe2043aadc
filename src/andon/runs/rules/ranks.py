"""Which processes are one run: the ranks of a distributed training, from their environment."""

from collections.abc import Mapping

from msgspec import Struct

RUN_VARIABLE = "ANDON_RUN"
"""The run that a process is part of: a recorder inside makes a child of it."""
RECORD_VARIABLE = "ANDON_RECORD"
"""Where the record of the run is."""
NO_TORCHRUN_ID = "none"  # what torchrun sets where no --rdzv-id was given


def run_variables(run: str, record: str | None = None) -> dict[str, str]:
    """Returns the variables for the processes of a run; in a container its record has no path."""
    return {RUN_VARIABLE: run} if record is None else {RUN_VARIABLE: run, RECORD_VARIABLE: record}


class RankPlace(Struct, frozen=True):
    """The position of a process in its run; None if it is not one of several."""

    group: str | None = None
    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    local_world_size: int | None = None

    def sampled_by_another(self, visible: int) -> str | None:
        """Returns why this rank does not sample the devices; None if it does.

        Ranks that each see a device of their own sample that one; those that see the same ones
        leave it to the first of the node.
        """
        if not self.local_rank:
            return None
        if self.local_world_size is not None and visible < self.local_world_size:
            return None
        return (
            f"local rank 0 samples the devices of this node; this is local rank {self.local_rank}"
        )


def rank_place(variables: Mapping[str, str], launcher: str) -> RankPlace:
    """Returns the rank; the innermost launcher counts. `launcher` names the parent process, for
    ranks that have nothing else in common."""
    for read in (_torchrun, _slurm, _mpi):
        found = read(variables, launcher)
        if found is not None:
            return found
    return RankPlace()


def _torchrun(variables: Mapping[str, str], launcher: str) -> RankPlace | None:
    rank, world = _number(variables, "RANK"), _number(variables, "WORLD_SIZE")
    if rank is None or world is None:
        return None
    named = variables.get("TORCHELASTIC_RUN_ID", NO_TORCHRUN_ID)
    group = _step(variables) or f"launcher:{launcher}"
    if named not in ("", NO_TORCHRUN_ID):
        group = f"torchrun:{named}"
    local, each = _number(variables, "LOCAL_RANK"), _number(variables, "LOCAL_WORLD_SIZE")
    return RankPlace(group, rank, world, local, each)


def _slurm(variables: Mapping[str, str], launcher: str) -> RankPlace | None:
    """Returns the rank in a Slurm step; None in a batch script, which is no rank."""
    step, rank = _step(variables), _number(variables, "SLURM_PROCID")
    if step is None or rank is None:
        return None
    world = _number(variables, "SLURM_STEP_NUM_TASKS") or _number(variables, "SLURM_NTASKS")
    local = _number(variables, "SLURM_LOCALID")
    return RankPlace(step, rank, world, local, _local_tasks(variables))


def _mpi(variables: Mapping[str, str], launcher: str) -> RankPlace | None:
    for rank, world, local, each in (
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
         "OMPI_COMM_WORLD_LOCAL_SIZE"),
        ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
         "MV2_COMM_WORLD_LOCAL_SIZE"),
        ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ):  # fmt: skip
        number = _number(variables, rank)
        if number is None:
            continue
        named = variables.get("PMIX_NAMESPACE")
        return RankPlace(
            f"mpi:{named}" if named else f"launcher:{launcher}",
            number,
            _number(variables, world),
            _number(variables, local),
            _number(variables, each),
        )
    return None


def _step(variables: Mapping[str, str]) -> str | None:
    job, step = variables.get("SLURM_JOB_ID"), variables.get("SLURM_STEP_ID")
    return f"slurm:{job}.{step}" if job and step else None


def _local_tasks(variables: Mapping[str, str]) -> int | None:
    """Returns the tasks of the first nodes in `4(x2),3`; unequal nodes cannot be distinguished."""
    each = variables.get("SLURM_STEP_TASKS_PER_NODE", "").split(",")[0].split("(")[0]
    return int(each) if each.isascii() and each.isdecimal() else None


def _number(variables: Mapping[str, str], name: str) -> int | None:
    found = variables.get(name, "")
    return int(found) if found.isascii() and found.isdecimal() and len(found) < 10 else None
