"""`andon cancel`: ends jobs, whether they wait or run."""

import time
from functools import partial

import click

from andon.cli.commands.jobs.common import JOB_FORMS, job_arguments, report_outcomes
from andon.cli.commands.jobs.desks import desk_of_machine
from andon.cli.options import at_server, chosen, shared
from andon.cli.sources import settings_of
from andon.errors import AndonError, TimedOut
from andon.jobs.acts import CancelOutcome
from andon.jobs.desk import JobDesk, desk_with
from andon.jobs.queue_desk import SLACK_SECONDS, QueueDesk
from andon.jobs.waiting import wait
from andon.model.job.desk import JobAct, JobOutcome


@click.command(epilog=JOB_FORMS)
@job_arguments
@click.option("--no-wait", is_flag=True, help="Do not wait for running jobs to end.")
@partial(at_server, nodes=False)
@shared
def cancel(jobs: tuple[str, ...], no_wait: bool) -> int:
    """Cancel jobs: waiting ones never start; running ones get SIGTERM, then SIGKILL.

    The job's --grace is the time between the two. A process that survives both is named.
    """
    choices = chosen()
    desk = desk_of_machine(choices)
    outcomes = desk.act(JobAct.CANCEL, jobs)
    stopping = [one.label for one in outcomes if one.text == CancelOutcome.STOPPING]
    ended = [one for one in outcomes if one.text != CancelOutcome.STOPPING]
    if stopping and not no_wait:
        grace = settings_of(choices).work_grace_seconds
        ended += [_end_of(desk_with(desk, label), label, grace) for label in stopping]
    return report_outcomes(choices, ended)


def _end_of(desk: JobDesk, label: str, grace: float) -> JobOutcome:
    """Waits for a job to end within its grace period; returns the outcome."""
    if isinstance(desk, QueueDesk):
        return desk.end_of(label, grace)
    try:
        wait(desk, [label], time.monotonic() + grace + SLACK_SECONDS)
    except TimedOut:
        why = AndonError(f"job {label} has not ended yet", hint="andon jobs wait waits for it")
        return JobOutcome(label, error=why)
    return JobOutcome(label, "cancelled")
