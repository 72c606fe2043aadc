"""What every kind of cluster makes of a submission: what andon inside the job is told, and a
refusal of what the cluster has no word for."""

from collections.abc import Mapping
from typing import Any

from andon.errors import Invalid
from andon.model.job.cluster import ClusterTask, Submission

LONGEST_NAME = 200


def task_of(
    submission: Submission, cluster: str, notes: str, runs: str, **more: Any
) -> ClusterTask:
    """Returns what andon inside the job is told; `notes` and `runs` are folders."""
    job = submission.job
    return ClusterTask(
        cluster,
        submission.label,
        one_line(job.name),
        notes,
        runs,
        job.submitted_at,
        job.request.least,
        job.tags,
        job.group,
        job.params,
        quiet=True,
        metrics=job.metrics,
        stop_when=job.stop_when,
        **more,
    )


def one_line(name: str) -> str:
    """Returns a name without what would break a line of a cluster's lists."""
    signs = (sign if sign.isprintable() else " " for sign in name)
    return "".join(signs)[:LONGEST_NAME] or "job"


def refuse(cluster: str, refused: Mapping[str, tuple[bool, str]]) -> None:
    """Raises Invalid for the first that was given; each has what to use instead."""
    for name, (given, instead) in refused.items():
        if given:
            raise Invalid(f"{cluster} does not take {name}", hint=instead)
