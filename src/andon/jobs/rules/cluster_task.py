"""Makes the task that andon gets inside a job of a cluster, of any kind."""

from typing import Any

from andon.model.job.cluster import ClusterTask
from andon.model.job.desk import Submission

LONGEST_NAME = 200


def task_of(
    submission: Submission, cluster: str, notes: str, runs: str, **more: Any
) -> ClusterTask:
    """Returns what andon needs to know inside the job; `notes` and `runs` are folders."""
    job = submission.job
    return ClusterTask(
        cluster,
        submission.label,
        one_line(job.name),
        notes,
        submission.runs or runs,
        job.submitted_at,
        job.request.least,
        job.tags,
        job.group,
        job.params,
        quiet=True,
        metrics=job.metrics,
        stop_when=job.stop_when,
        collected=bool(submission.runs),
        **more,
    )


def one_line(name: str) -> str:
    """Returns a name without what would break a line of a cluster's lists."""
    signs = (sign if sign.isprintable() else " " for sign in name)
    return "".join(signs)[:LONGEST_NAME] or "job"
