"""Jobs of clusters at the command line: submit, show, wait, cancel, why."""

import os
import time
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from andon.cli.json_text import as_json_text
from andon.cli.show.text import Text, say
from andon.cli.terminal import Choices, Terminal, notice, report
from andon.errors import AndonError, Gone, Invalid, TimedOut, Unavailable
from andon.failures.rules.backoff import doubled_seconds
from andon.jobs.clusters.asking import OpenCluster
from andon.jobs.clusters.notes import recent_notes, submit_once
from andon.jobs.clusters.pages import forget_answer
from andon.jobs.rules.cluster_views import named, of_id, view_of
from andon.jobs.rules.polling import FRESH_SECONDS, PAST_SECONDS
from andon.model.job import JobState, JobView
from andon.model.job.cluster import ClusterJob, ClusterReason, Submission
from andon.model.job.spec import JobSpec
from andon.ports import Previewing

FIRST_POLL_SECONDS = 0.2


# Submit.


def submission_of(
    cluster: OpenCluster,
    spec: JobSpec,
    options: Sequence[str] = (),
    after: Sequence[str] = (),
    after_any: Sequence[str] = (),
    array: str | None = None,
) -> Submission:
    """Returns the job as it is handed to a cluster; refuses what only this machine's queue has."""
    if spec.unique or spec.notify is not None:
        option = "--unique" if spec.unique else "--notify"
        raise Invalid(
            f"{option} is for jobs on this machine", hint="leave it out, or use --on here"
        )
    from andon.jobs.rules.naming import parse_array

    indices, limit = parse_array(array) if array else ((), None)
    return Submission(
        f"a{os.urandom(6).hex()}",
        spec,
        _ids(cluster, after),
        _ids(cluster, after_any),
        indices,
        limit,
        tuple(options),
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
    except Unavailable as error:
        told = f"{error.reason}; whether it took the job is not known: see andon jobs"
        raise Unavailable(told, error.hint) from error
    finally:
        forget_answer(cluster.name)
    return named(cluster.name, job)


def say_submitted(choices: Choices, label: str, submission: Submission) -> None:
    terminal = Terminal.of(choices)
    if not terminal.live:
        terminal.show(f"{label}\n")
        return
    count = len(submission.indices)
    many, then = (f" ({count} jobs)", "andon jobs") if count else ("", f"andon logs {label} -f")
    terminal.say(say(f"job {label}{many}: {submission.job.name}; {then}"))


def preview_there(choices: Choices, cluster: OpenCluster, submission: Submission) -> None:
    """Prints what would be submitted, in the cluster's own words if it has any."""
    opened, terminal = cluster.open(), Terminal.of(choices)
    if isinstance(opened, Previewing):
        text = cluster.ask(lambda _: opened.preview(submission))
        terminal.show(text if text.endswith("\n") else f"{text}\n")
        return
    from andon.cli.show.jobs import render_dry

    for line in render_dry([[submission.job] * max(1, len(submission.indices))], terminal.width):
        terminal.say(line)


# Wait, show, cancel, why.


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


def views_there(cluster: OpenCluster, ids: Sequence[str]) -> list[JobView]:
    notes = {one.submission.label: one for one in recent_notes(time.time() - PAST_SECONDS)}
    jobs = jobs_there(cluster, ids)
    return [view_of(cluster.name, job, notes.get(job.label or "")) for job in jobs]


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


def cancel_there(choices: Choices, cluster: OpenCluster, ids: Sequence[str]) -> int:
    try:
        cluster.ask(lambda there: there.cancel(ids))
    except AndonError as error:
        report(error)
        return error.exit_code
    finally:
        forget_answer(cluster.name)
    for job in ids:
        notice(f"job {named(cluster.name, job)} is asked to end", choices)
    return 0


def why_there(choices: Choices, cluster: OpenCluster, job: str, as_json: bool) -> int:
    """Prints why a job waits or how it ended, and what would help."""
    from andon.model.shapes import to_json

    views, terminal = views_there(cluster, [job]), Terminal.of(choices)
    if len(views) > 1:
        views = [one for one in views if not one.state.is_settled] or views
        notice(f"{named(cluster.name, job)} is an array; this is {views[0].label}", choices)
    view = views[0]
    reasons = cluster.ask(lambda there: list(there.reasons(view.engine_id or job)))
    if as_json:
        value = {"schema": "andon.why_job/1", "job": to_json(view), "reasons": to_json(reasons)}
        terminal.show(as_json_text(value, terminal.live))
        return 0
    for line in _why_lines(view, reasons):
        terminal.say(line)
    return 0


def _why_lines(view: JobView, reasons: Sequence[ClusterReason]) -> Iterator[Text]:
    yield say(f"job {view.label} {view.name}: {view.state.words}", "bold")
    if view.where:
        yield say(f"  {'on' if view.started else 'in'} {view.where}")
    for reason in reasons:
        yield say(f"  {reason.text}")
        if reason.advice:
            yield say(f"    {reason.advice}", "dim")


def waited_there(choices: Choices, cluster: OpenCluster, label: str) -> int:
    """Waits for a job that was just submitted; returns its exit code."""
    from andon.cli.commands.jobs.common import going_on

    with going_on(choices, [label]):
        ended = wait_there(cluster, [label.removeprefix(f"{cluster.name}:")])
    for job in ended:
        if job.state is not JobState.SUCCEEDED and job.reason:
            notice(f"job {named(cluster.name, job.id)} {job.state.words}: {job.reason}", choices)
    return max(map(code_of, ended))


def show_there(found: "dict[str, tuple[OpenCluster, list[str]]]") -> tuple[list[JobView], int]:
    """Returns the named jobs of clusters, with all reasons; what fails is reported."""
    views, code = list[JobView](), 0
    for cluster, ids in found.values():
        try:
            views += [_with_reasons(cluster, view) for view in views_there(cluster, ids)]
        except AndonError as error:
            report(error)
            code = error.exit_code
    return views, code


def _with_reasons(cluster: OpenCluster, view: JobView) -> JobView:
    if view.state.is_settled or view.started is not None:
        return view
    job = view.engine_id or ""
    reasons = cluster.ask(lambda there: list(there.reasons(job)))
    lines = [line for one in reasons for line in (one.text, one.advice) if line]
    return replace(view, waiting_details=tuple(one for one in lines if one != view.reason))
