"""The commands of `andon jobs`: show, wait, retry, requeue, hold, resume, rm, move, pause, …"""

import time
from collections.abc import Callable, Sequence
from functools import partial

import click

from andon.cli.commands.completing import complete_job
from andon.cli.commands.jobs.common import (
    JOB_FORMS,
    QUEUE_JOB_FORMS,
    job_arguments,
    report_all,
    report_outcomes,
    wait_for_all,
)
from andon.cli.commands.jobs.desks import desk_of_machine, desks_of
from andon.cli.commands.jobs.on import desk_of
from andon.cli.commands.jobs.submit import show_accepted
from andon.cli.options import F, at_server, chosen, duration, shared, with_options
from andon.cli.show.jobs import render_job
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import AndonError, Invalid
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.clusters.elsewhere import submit_elsewhere
from andon.jobs.desk import split_by_desk
from andon.jobs.folder import open_jobs_folder
from andon.jobs.queue import wake
from andon.model.codec import document
from andon.model.job import is_host
from andon.model.job.desk import (
    JobAct,
)
from andon.model.job.facts import JobList, JobState


@click.command(epilog=JOB_FORMS)
@job_arguments
@click.option("--json", "as_json", is_flag=True, help="Print andon.jobs/1: UTC, bytes.")
@at_server
@shared
def show(jobs: tuple[str, ...], as_json: bool) -> int:
    """Show jobs: what they ask for, why they wait, on which GPUs they run, how they ended."""
    choices = chosen()
    desk = desk_of_machine(choices)
    found, errors = desk.find(jobs)
    code = report_all(errors)
    views = [desk.view(one.number or one.label) for one in found]
    terminal = Terminal.of(choices)
    if as_json:
        paused = choices.url is None and open_jobs_folder().paused
        terminal.show_json(document(JobList(paused, views)))
        return code

    for view in views:
        terminal.print(*render_job(view, time.time()))
    return code


@click.command(epilog=JOB_FORMS)
@job_arguments
@click.option("--timeout", "-t", type=duration, metavar="TIME", help="Maximum wait.")
@at_server
@shared
def wait(jobs: tuple[str, ...], timeout: float | None) -> int:
    """Wait until jobs have ended; the exit code is that of the worst one."""
    until = None if timeout is None else time.monotonic() + timeout
    split = split_by_desk(desk_of_machine(chosen()), jobs)
    return max(wait_for_all(desk, names, until) for desk, names in split)


def _options_of(act: JobAct) -> Callable[[F], F]:
    return _retry_options if act is JobAct.RETRY else lambda command: command


def _retry_options(command: F) -> F:
    return with_options(
        command,
        click.option("--failed", is_flag=True, help="Only those that did not succeed."),
        click.option("--on", metavar="NAME", help="A job of a host: on others, ssh:@GROUP."),
        click.option("--force", is_flag=True, help="With --on: also if its host does not answer."),
    )


def _acting(act: JobAct, about: str) -> click.Command:
    """Makes a command that does the same to each job; a failure on one does not stop the others."""

    @click.command(act.value, help=about, epilog=QUEUE_JOB_FORMS)
    @job_arguments
    @_options_of(act)
    @partial(at_server, nodes=False)
    @shared
    def command(
        jobs: tuple[str, ...], failed: bool = False, on: str | None = None, force: bool = False
    ) -> int:
        choices = chosen()
        desk, names = desk_of_machine(choices), list(jobs)
        errors: Sequence[AndonError] = ()
        if failed:
            found, errors = desk.find(jobs, act)
            ended = [one for one in found if one.state.is_settled]
            names = [one.label for one in ended if one.state is not JobState.SUCCEEDED]
        if on is not None:
            return max(report_all(errors), _retry_on(choices, on, names, force))
        return max(report_all(errors), report_outcomes(choices, desk.act(act, names)))

    return command


def _retry_on(choices: Choices, on: str, names: Sequence[str], force: bool) -> int:
    """Submits jobs of hosts again, to other hosts."""
    target, desks = desk_of(choices, {"on": on}, lambda: None), desks_of(choices)
    for name in names:
        host = desks.of(name)
        if target is None or not isinstance(host, ClusterDesk) or not is_host(name):
            hint = "andon jobs retry --on ssh:@lab ssh:n18:42"
            raise Invalid("--on is for a job of a host, which goes to another host", hint=hint)
        show_accepted(choices, submit_elsewhere(host, name, target, force))
    return 0


retry = _acting(JobAct.RETRY, "Run ended jobs again, as if they had just been submitted.")
requeue = _acting(
    JobAct.REQUEUE,
    """Stop running jobs and queue them again, for other GPUs if there are any.

    A job with --checkpoint gets its signal and its time first. Then comes SIGTERM, and after the
    job's --grace SIGKILL.
    """,
)
hold = _acting(JobAct.HOLD, "Keep jobs from starting until andon jobs resume.")
resume = _acting(JobAct.RESUME, "Let held jobs start.")
rm = _acting(JobAct.REMOVE, "Delete ended jobs with their output; the records of their runs stay.")


@click.command(epilog=QUEUE_JOB_FORMS)
@click.argument("job", metavar="JOB", shell_complete=complete_job)
@click.option("--first", is_flag=True, help="Move it to the front.")
@click.option("--last", is_flag=True, help="Move it to the end.")
@click.option("--before", metavar="JOB", help="Move it right before this one.")
@partial(at_server, nodes=False)
@shared
def move(job: str, first: bool, last: bool, before: str | None) -> int:
    """Change a job's position among your own of the same priority."""
    if first + last + (before is not None) != 1:
        raise click.UsageError("use one of --first, --last and --before JOB")
    choices = chosen()
    if before is None:
        moved = desk_of_machine(choices).act(JobAct.FIRST if first else JobAct.LAST, [job])
    elif choices.url is None:
        moved = [desks_of(choices).queue.move_before(job, before)]
    else:
        raise click.UsageError("--url and --before cannot be combined: use --first or --last")
    return report_outcomes(choices, moved)


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
