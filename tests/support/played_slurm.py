"""Slurm as a test plays it: its commands, what each answers, and how often it was asked."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from andon.clusters.slurm import SlurmCluster
from andon.clusters.slurm.rules.answers import JOB_FIELDS, SEPARATOR
from andon.model.job.desk import Submission
from andon.model.job.device_request import DeviceRequest
from andon.model.job.spec import JobSpec
from andon.settings.clusters import ClusterSettings

UP = "Slurmctld(primary) at head is UP\n"
DOWN = "Slurmctld(primary) at head is DOWN\n"
PARTITIONS = (
    "PartitionName=main Default=YES MaxTime=UNLIMITED State=UP\n"
    "PartitionName=short Default=NO MaxTime=00:10:00 State=UP\n"
)
Answer = tuple[int, str, str]


class Played:
    """Slurm's commands: what each answers, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = list[str]()
        self.answers: dict[str, Answer | BaseException | Callable[[], Answer]] = {
            "scontrol ping": (0, UP, ""),
            "scontrol": (0, "", ""),
            "scontrol -o show partition": (0, PARTITIONS, ""),
            "squeue": (0, "", ""),
            "sbatch": (0, "4711\n", ""),
            "scancel": (0, "", ""),
            "sinfo": (0, "", ""),
            "sacct": (1, "", "Slurm accounting storage is disabled"),
        }

    def __call__(
        self,
        command: Sequence[str],
        seconds: float,
        text: str,
        environment: Mapping[str, str],
        outlives: bool,
    ) -> Answer:
        words = " ".join(command)
        self.asked.append(command[0])
        known = [name for name in self.answers if words.startswith(name)]
        answer = self.answers[max(known, key=len)]
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, tuple) else answer()

    def count(self, name: str) -> int:
        return self.asked.count(name)


def opened(played: Played, logs: Path) -> SlurmCluster:
    return SlurmCluster(ClusterSettings("slurm", "slurm", 3.0, {"logs": str(logs)}), played)


def submission(label: str = "a1b2", options: tuple[str, ...] = (), **job: Any) -> Submission:
    spec = JobSpec(0, "train", ("true",), "/home/a", DeviceRequest(), time.time())
    return Submission(label, replace(spec, environment={"A": "1"}, **job), options=options)


def row(**values: str) -> str:
    usual = {
        "JobID": "4711", "ArrayJobID": "4711", "ArrayTaskID": "N/A", "State": "RUNNING",
        "UserName": "root", "SubmitTime": "1794919219", "StartTime": "1794919220",
        "EndTime": f"{time.time():.0f}", "tres-per-job": "N/A", "tres-per-node": "gres:gpu:1",
        "NodeList": "n1", "Partition": "main", "Reason": "None", "Dependency": "",
        "TimeLimit": "1:30:00", "exit_code": "0", "Comment": "andon:a1b2", "Name": "train",
    }  # fmt: skip
    return SEPARATOR.join((usual | values)[name] for name in JOB_FIELDS) + SEPARATOR + "\n"
