"""Submits a job to a cluster once, finds it there again and waits for its end."""

import os
import time
from collections.abc import Sequence

from andon.errors import AndonError, Gone, Invalid, TimedOut, Unavailable
from andon.failures.rules.backoff import doubled_seconds
from andon.jobs.clusters.asking import NotSent, OpenCluster
from andon.jobs.clusters.notes import submit_once
from andon.jobs.clusters.pages import forget_answer
from andon.jobs.rules.cluster_views import named, of_id
from andon.jobs.rules.naming import parse_array
from andon.jobs.rules.polling import FRESH_SECONDS, PAST_SECONDS
from andon.model.job.cluster import ClusterJob, Submission
from andon.model.job.facts import JobState
from andon.model.job.spec import JobSpec

FIRST_POLL_SECONDS = 0.2


def submission_of(
    cluster: OpenCluster,
    spec: JobSpec,
    options: Sequence[str] = (),
    after: Sequence[str] = (),
    after_any: Sequence[str] = (),
    array: str | None = None,
    per_gpu: int = 0,
) -> Submission:
    """Returns the job as it is handed to a cluster; refuses what only this machine's queue has."""
    if spec.unique or spec.notify is not None:
        option = "--unique" if spec.unique else "--notify"
        raise Invalid(
            f"{option} is for jobs on this machine", hint="leave it out, or use --on here"
        )
    indices, limit = parse_array(array) if array else ((), None)
    return Submission(
        f"a{os.urandom(6).hex()}",
        spec,
        _ids(cluster, after),
        _ids(cluster, after_any),
        indices,
        limit,
        tuple(options),
        per_gpu,
    )


def _ids(cluster: OpenCluster, given: Sequence[str]) -> tuple[str, ...]:
    words = [word.strip() for part in given for word in part.split(",") if word.strip()]
    prefix = f"{cluster.name}:"
    if wrong := [word for word in words if not word.startswith(prefix) or word == prefix]:
        raise Invalid(
            f"a job on {cluster.name} can wait only for jobs there, not for {wrong[0][:60]!r}",
            hint=f"name them as andon jobs does: {prefix}ID",
        )
    return tuple(dict.fromkeys(word.removeprefix(prefix) for word in words))


def submit_there(cluster: OpenCluster, submission: Submission) -> str:
    """Submits a job; returns its name here, `lab:4711`."""
    try:
        job = cluster.ask(lambda there: submit_once(cluster.name, there, submission))
    except NotSent:
        raise
    except Unavailable as error:
        told = f"{error.reason}; whether it took the job is not known: see andon jobs"
        raise Unavailable(told, error.hint) from error
    finally:
        forget_answer(cluster.name)
    return named(cluster.name, job)


def jobs_there(cluster: OpenCluster, ids: Sequence[str]) -> list[ClusterJob]:
    """Returns the jobs and elements of arrays with these ids; Gone names one that is not known."""
    since = time.time() - PAST_SECONDS
    listed = cluster.ask(lambda there: list(there.jobs(since)))
    found = {wanted: of_id(listed, wanted) for wanted in ids}
    for wanted, jobs in found.items():
        if not jobs:
            raise Gone(
                f"{cluster.name} knows no job {wanted[:60]} of yours",
                hint="andon jobs lists those that have not ended, or ended within a day",
            )
    return list({job.id: job for jobs in found.values() for job in jobs}.values())


def wait_there(
    cluster: OpenCluster, ids: Sequence[str], until: float | None = None
) -> list[ClusterJob]:
    """Waits until jobs have ended; returns them. A cluster that is away meanwhile is waited for."""
    polls = 0
    while True:
        try:
            jobs = jobs_there(cluster, ids)
        except AndonError as error:
            if isinstance(error, Gone | Invalid) or polls == 0:
                raise
            jobs = []
        if jobs and all(job.state.is_settled for job in jobs):
            return jobs
        if until is not None and time.monotonic() >= until:
            raise TimedOut("not all jobs have ended in time")
        time.sleep(doubled_seconds(polls, FIRST_POLL_SECONDS, FRESH_SECONDS))
        polls += 1


def code_of(job: ClusterJob) -> int:
    """Returns the job's own exit code, as a shell reports it; 1 if it has none and did not
    succeed."""
    if job.state is JobState.SUCCEEDED:
        return 0
    return job.exit_code or (1 if job.signal is None else 128 + job.signal)
