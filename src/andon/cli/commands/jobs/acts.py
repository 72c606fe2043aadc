"""The commands of `andon jobs`: show, wait, retry, requeue, hold, resume, rm, move, pause, …"""

import time
from collections.abc import Callable
from typing import Any

import click

from andon.cli.commands.completing import complete_job
from andon.cli.commands.jobs.clusters import apart, refuse_elsewhere
from andon.cli.commands.jobs.common import (
    JOB_FORMS,
    QUEUE_JOB_FORMS,
    job_words,
    meant_jobs,
    one_job,
    open_queue,
    wait_settled,
    worst_code,
)
from andon.cli.commands.jobs.elsewhere import show_there
from andon.cli.json_text import as_json_text
from andon.cli.options import chosen, duration, shared
from andon.cli.show.jobs import render_job
from andon.cli.terminal import Terminal, notice, report
from andon.errors import AndonError, TimedOut
from andon.jobs import acts
from andon.jobs.clusters.submitting import code_of, wait_there
from andon.jobs.folder import open_jobs_folder
from andon.jobs.queue import wake
from andon.model.job.facts import JobFacts, JobState, views_to_json
from andon.units import human_seconds


@click.command(epilog=JOB_FORMS)
@job_words
@click.option("--json", "as_json", is_flag=True, help="Print andon.jobs/1: UTC, bytes.")
@shared
def show(jobs: tuple[str, ...], as_json: bool) -> int:
    """Show jobs: what they ask for, why they wait, on which GPUs they run, how they ended."""
    choices = chosen()
    here, elsewhere = apart(choices, jobs)
    queue = open_queue(choices)
    found, code = meant_jobs(queue, here)
    views = [queue.view(facts.spec.number) for facts in found]
    if elsewhere:
        others, failed = show_there(elsewhere)
        views, code = [*views, *others], max(code, failed)
    terminal = Terminal.of(choices)
    if as_json:
        terminal.show(as_json_text(views_to_json(views, queue.paused), terminal.live))
        return code

    for view in views:
        for line in render_job(view, time.time()):
            terminal.say(line)
    return code


@click.command(epilog=JOB_FORMS)
@job_words
@click.option("--timeout", "-t", type=duration, metavar="TIME", help="Maximum wait.")
@shared
def wait(jobs: tuple[str, ...], timeout: float | None) -> int:
    """Wait until jobs have ended; the exit code is that of the worst one."""
    choices = chosen()
    here, elsewhere = apart(choices, jobs)
    queue = open_queue(choices)
    found, code = meant_jobs(queue, here)
    numbers = [facts.spec.number for facts in found]
    until = None if timeout is None else time.monotonic() + timeout

    def late() -> None:
        if until is not None and time.monotonic() >= until:
            several = len(numbers) > 1
            raise TimedOut(f"{'not all jobs have' if several else 'the job has not'} ended in time")

    code = max(code, worst_code(queue, numbers, wait_settled(queue, numbers, each=late)))
    for cluster, ids in elsewhere.values():
        code = max(code, *map(code_of, wait_there(cluster, ids, until)))
    return code


def _is_settled(state: JobState) -> bool:
    return state.is_settled


FITTING: dict[str, Callable[[JobState], bool]] = {
    "rm": _is_settled,
    "retry": _is_settled,
    "requeue": lambda state: state is JobState.RUNNING,
    "hold": lambda state: state in (JobState.WAITING, JobState.LATER),
    "resume": lambda state: state is JobState.HELD,
}
"""The jobs of a name that a command can act on; they come before others of that name."""


def _requeued(facts: JobFacts) -> str:
    checkpoint, last = facts.spec.checkpoint, facts.last
    labels = ", ".join(last.claim.labels) if last is not None else ""
    saves = ""
    if checkpoint is not None:
        time_left = human_seconds(checkpoint.seconds)
        saves = f"is sent SIG{checkpoint.signal}, has {time_left} to save its work, "
    elsewhere = f", for another GPU than {labels} if there is one" if labels else ""
    return f"{saves}is stopped and waits again{elsewhere}"


def _failed_option(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    if name != "retry":
        return lambda command: command
    return click.option("--failed", is_flag=True, help="Only those that did not succeed.")


def _acting(name: str, about: str, done: Callable[[JobFacts], str]) -> click.Command:
    """Makes a command that does the same to each job; a failure on one does not stop the others."""

    @click.command(name, help=about, epilog=QUEUE_JOB_FORMS)
    @job_words
    @_failed_option(name)
    @shared
    def command(jobs: tuple[str, ...], failed: bool = False) -> int:
        choices = chosen()
        refuse_elsewhere(choices, jobs)
        queue = open_queue(choices, wake=False)
        act: Any = getattr(acts, "remove" if name == "rm" else name)
        found, code = meant_jobs(queue, jobs, name in ("rm", "requeue"), FITTING.get(name))
        for facts in found:
            status = queue.statuses[facts.spec.number]
            if failed and (not status.state.is_settled or status.state is JobState.SUCCEEDED):
                continue
            try:
                if name == "rm":
                    act(queue.folder, facts, queue.jobs, queue.statuses)
                elif name == "resume":
                    act(queue.folder, facts)
                else:
                    act(queue.folder, facts, status)
            except AndonError as error:
                report(error)
                code = error.exit_code
            else:
                notice(f"job {facts.spec.label} {done(facts)}", choices)
        if name != "rm":
            wake(queue.folder)
        return code

    return command


retry = _acting(
    "retry",
    "Run ended jobs again, as if they had just been submitted.",
    lambda facts: "waits again",
)
requeue = _acting(
    "requeue",
    """Stop running jobs and queue them again, for other GPUs if there are any.

    A job with --checkpoint gets its signal and its time first. Then comes SIGTERM, and after the
    job's --grace SIGKILL.
    """,
    _requeued,
)
hold = _acting("hold", "Keep jobs from starting until andon jobs resume.", lambda facts: "is held")
resume = _acting("resume", "Let held jobs start.", lambda facts: "waits again")
rm = _acting(
    "rm",
    "Delete ended jobs with their output; the records of their runs stay.",
    lambda facts: "deleted",
)


@click.command(epilog=QUEUE_JOB_FORMS)
@click.argument("job", metavar="JOB", shell_complete=complete_job)
@click.option("--first", is_flag=True, help="Move it to the front.")
@click.option("--last", is_flag=True, help="Move it to the end.")
@click.option("--before", metavar="JOB", help="Move it right before this one.")
@shared
def move(job: str, first: bool, last: bool, before: str | None) -> int:
    """Change a job's position among your own of the same priority."""
    if first + last + (before is not None) != 1:
        raise click.UsageError("use one of --first, --last and --before JOB")
    choices = chosen()
    refuse_elsewhere(choices, [job, before or ""])
    queue = open_queue(choices, wake=False)
    facts = queue.jobs[one_job(queue, job)]
    target = None if before is None else one_job(queue, before)
    acts.move(queue.folder, facts, queue.jobs, queue.statuses, target, first)
    wake(queue.folder)
    notice(f"job {facts.spec.label} moved", choices)
    return 0


@click.command()
@shared
def pause() -> int:
    """Start no more jobs until andon jobs start; running ones continue."""
    open_jobs_folder().pause()
    notice("paused; to resume: andon jobs start", chosen())
    return 0


@click.command()
@shared
def start() -> int:
    """Start jobs again after andon jobs pause."""
    folder = open_jobs_folder()
    folder.unpause()
    wake(folder)
    return 0
