"""`andon cancel`: ends jobs, whether they wait or run."""

import click

from andon.cli.commands.jobs.common import JOB_FORMS, job_words, say_outcomes
from andon.cli.commands.jobs.desks import desks_of
from andon.cli.options import chosen, shared
from andon.cli.sources import settings_of
from andon.jobs.acts import CancelOutcome
from andon.model.job.desk import JobAct


@click.command(epilog=JOB_FORMS)
@job_words
@click.option("--no-wait", is_flag=True, help="Do not wait for running jobs to end.")
@shared
def cancel(jobs: tuple[str, ...], no_wait: bool) -> int:
    """Cancel jobs: waiting ones never start; running ones get SIGTERM, then SIGKILL.

    The job's --grace is the time between the two. A process that survives both is named.
    """
    choices = chosen()
    desks = desks_of(choices)
    outcomes = desks.act(JobAct.CANCEL, jobs)
    stopping = [one.label for one in outcomes if one.words == CancelOutcome.STOPPING]
    ended = [one for one in outcomes if one.words != CancelOutcome.STOPPING]
    if stopping and not no_wait:
        grace = settings_of(choices).work_grace_seconds
        ended += [desks.queue.end_of(label, grace) for label in stopping]
    return say_outcomes(choices, ended)
