"""Jobs of clusters at the command line: submit, show, wait, cancel, why."""

import time
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from andon.cli.commands.jobs.common import going_on
from andon.cli.json_text import as_json_text
from andon.cli.show.jobs import render_dry
from andon.cli.show.text import Text, say
from andon.cli.terminal import Choices, Terminal, notice, report
from andon.errors import AndonError
from andon.jobs.clusters.asking import OpenCluster
from andon.jobs.clusters.notes import recent_notes
from andon.jobs.clusters.pages import forget_answer
from andon.jobs.clusters.submitting import code_of, jobs_there, wait_there
from andon.jobs.rules.cluster_views import named, view_of
from andon.jobs.rules.polling import PAST_SECONDS
from andon.model.job.cluster import ClusterReason, Submission
from andon.model.job.facts import JobState, JobView
from andon.model.shapes import to_json
from andon.ports import Previewing
from andon.units import counted, sh

# Submit.


def say_submitted(
    choices: Choices, cluster: OpenCluster, label: str, submission: Submission
) -> None:
    terminal, opened = Terminal.of(choices), cluster.open()
    if isinstance(opened, Previewing) and (placed := opened.placed(submission)):
        notice(f"{label}: {placed}", choices)
    if not terminal.live:
        terminal.show(f"{label}\n")
        return
    count = len(submission.indices)
    many, then = f" ({counted(count, 'job')})", "andon jobs"
    if not count:
        many, then = "", f"andon logs {sh(label)} -f"
    terminal.say(say(f"job {label}{many}: {submission.job.name}; {then}"))


def preview_there(choices: Choices, cluster: OpenCluster, submission: Submission) -> None:
    """Prints what would be submitted, in the cluster's own words if it has any."""
    opened, terminal = cluster.open(), Terminal.of(choices)
    if isinstance(opened, Previewing):
        text = cluster.ask(lambda _: opened.preview(submission))
        terminal.show(text if text.endswith("\n") else f"{text}\n")
        return

    for line in render_dry([[submission.job] * max(1, len(submission.indices))], terminal.width):
        terminal.say(line)


# Wait, show, cancel, why.


def views_there(cluster: OpenCluster, ids: Sequence[str]) -> list[JobView]:
    notes = {one.submission.label: one for one in recent_notes(time.time() - PAST_SECONDS)}
    jobs = jobs_there(cluster, ids)
    return [view_of(cluster.name, job, notes.get(job.label or "")) for job in jobs]


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
    with going_on(choices, [label]):
        ended = wait_there(cluster, [label.removeprefix(f"{cluster.name}:")])
    for job in ended:
        if job.state is not JobState.SUCCEEDED and job.reason:
            notice(f"job {named(cluster.name, job.id)} {job.state.words}: {job.reason}", choices)
    return max(map(code_of, ended))


def show_there(found: dict[str, tuple[OpenCluster, list[str]]]) -> tuple[list[JobView], int]:
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
