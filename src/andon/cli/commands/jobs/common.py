"""What the commands about jobs share: arguments, waiting, and what is printed."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from andon.cli.commands.completing import complete_job
from andon.cli.options import chosen
from andon.cli.terminal import Choices, notice, report
from andon.errors import AndonError
from andon.jobs.desk import JobDesk
from andon.jobs.waiting import exit_code, wait
from andon.model.job.desk import JobName, JobOutcome
from andon.units import shell_line

JOB_FORMS = (
    "JOB is a number, a name, a group, @ for the last one, 12_3 for an element of an array, or "
    "lab:4711 for a job of the cluster lab."
)
QUEUE_JOB_FORMS = (
    "JOB is a number, a name, a group, @ for the last one, or 12_3 for an element of an array."
)


def job_arguments(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds JOB… as arguments; at least one is required."""
    return click.argument(
        "jobs", nargs=-1, required=True, metavar="JOB...", shell_complete=complete_job
    )(command)


def report_all(errors: Sequence[Exception | None]) -> int:
    """Prints errors; returns the exit code of the last one."""
    code = 0
    for error in errors:
        if isinstance(error, AndonError):
            report(error, chosen())
            code = error.exit_code
    return code


def report_outcomes(choices: Choices, outcomes: Sequence[JobOutcome]) -> int:
    """Prints the outcome for each job; returns the exit code of the last error."""
    code, reported = 0, ""
    for one in outcomes:
        if one.error is None:
            notice(f"job {one.label} {one.text}", choices)
        elif one.error.reason != reported:  # a cluster that does not answer is reported once
            code, reported = report_all([one.error]), one.error.reason
    return code


def wait_for_all(
    desk: JobDesk,
    names: Sequence[JobName],
    until: float | None = None,
    on_failure: Callable[[str], None] = lambda _: None,
) -> int:
    """Waits for jobs; returns the exit code of the worst one. `on_failure` gets why one failed."""
    ended, errors = wait(desk, names, until)
    for view in ended:
        if view.error:
            sys.stdout.flush()
            on_failure(f"job {view.label} {view.state.text}: {view.error}")
    return max([report_all(errors), *map(exit_code, ended)])


@contextmanager
def notice_if_interrupted(choices: Choices, labels: Sequence[str]) -> Iterator[None]:
    """Prints, if the user stops waiting, that the jobs continue and how to end them."""
    try:
        yield
    except KeyboardInterrupt:
        several = len(labels) > 1
        which = f"job{'s' * several} {', '.join(labels)} go{'' if several else 'es'} on"
        them = "them" if several else "it"
        notice(f"{which}; to end {them}: andon cancel {shell_line(*labels)}", choices)
        raise
