"""`andon cancel`: ends jobs, whether they wait or run."""

from collections.abc import Sequence

import click

from andon.cli.commands.jobs.clusters import apart
from andon.cli.commands.jobs.common import (
    JOB_FORMS,
    deleted_meanwhile,
    job_words,
    meant_jobs,
    open_queue,
)
from andon.cli.commands.jobs.elsewhere import cancel_there
from andon.cli.options import chosen, shared
from andon.cli.sources import settings_of
from andon.cli.terminal import Choices, notice, report
from andon.errors import AndonError
from andon.jobs import acts
from andon.jobs.queue import wake
from andon.model.job.facts import JobFacts, JobState

SLACK_SECONDS = 5.0
STILL_ENDING = "what it left is being removed; see andon jobs"


@click.command(epilog=JOB_FORMS)
@job_words
@click.option("--no-wait", is_flag=True, help="Do not wait for running jobs to end.")
@shared
def cancel(jobs: tuple[str, ...], no_wait: bool) -> int:
    """Cancel jobs: waiting ones never start; running ones get SIGTERM, then SIGKILL.

    The job's --grace is the time between the two. A process that survives both is named.
    """
    choices = chosen()
    here, elsewhere = apart(choices, jobs)
    codes = [_cancel_here(choices, here, no_wait)] if here else []
    if elsewhere:
        codes += [cancel_there(choices, one, ids) for one, ids in elsewhere.values()]
    return max(codes)


def _cancel_here(choices: Choices, jobs: Sequence[str], no_wait: bool) -> int:
    queue = open_queue(choices, wake=False)
    found, code = meant_jobs(queue, jobs, True, lambda state: not state.is_settled)
    outcomes = []
    for facts in found:
        status = queue.statuses[facts.spec.number]
        try:
            outcomes.append((facts, acts.cancel(queue.folder, facts, status, settle=False)))
        except AndonError as error:  # the others are cancelled all the same
            report(error)
            code = error.exit_code
    queue.folder.settle(facts.spec.number for facts, _ in outcomes)
    stopping = []
    for facts, outcome in outcomes:
        if outcome is acts.CancelOutcome.STOPPING:
            stopping.append(facts)
        elif outcome is acts.CancelOutcome.ENDED:
            state = queue.statuses[facts.spec.number].state
            words = "was already cancelled" if state is JobState.CANCELLED else "has ended already"
            notice(f"job {facts.spec.label} {words}", choices)
        else:
            notice(f"job {facts.spec.label} cancelled", choices)
    for facts in [] if no_wait else stopping:
        ended = acts.wait_for_end(queue.folder, facts.spec.number, _patience(facts, choices))
        left = acts.left_over(facts if ended is None else ended)
        if left:
            pids = ", ".join(map(str, left))
            last = (ended or facts).last
            holds = ", ".join(last.claim.labels) if last else "?"
            notice(f"job {facts.spec.label}: pid {pids} still runs and holds GPU {holds}", choices)
            code = 1
        elif ended is None:
            code = deleted_meanwhile(facts.spec.label)
        elif ended.last is not None and ended.last.end is None and ended.last.locked:
            notice(f"job {facts.spec.label} has not ended yet: {STILL_ENDING}", choices)
            code = 1
        else:
            notice(f"job {facts.spec.label} cancelled", choices)
    wake(queue.folder)
    return code


def _patience(facts: JobFacts, choices: Choices) -> float:
    """Returns how long a job has to end."""
    grace = facts.spec.grace_seconds
    if grace is None:
        grace = settings_of(choices).work_grace_seconds
    return grace + SLACK_SECONDS
