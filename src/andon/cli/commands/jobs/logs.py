"""`andon logs`: the output of jobs, once or while they run."""

import sys
from collections.abc import Sequence
from itertools import groupby

import click

from andon.cli.commands.completing import complete_job
from andon.cli.commands.jobs.common import JOB_FORMS, report_all
from andon.cli.commands.jobs.desks import desk_of_machine
from andon.cli.commands.jobs.following import JobOutput, follow, follow_many
from andon.cli.options import at_server, chosen, shared, whole_or_0
from andon.cli.show.text import harmless
from andon.cli.terminal import Choices, notice, write
from andon.errors import Invalid
from andon.jobs.desk import JobDesk, desk_with
from andon.model.job.desk import Able
from andon.model.job.facts import JobView
from andon.units import counted, sh

LINES = 15


@click.command(epilog=JOB_FORMS)
@click.argument("job", metavar="[JOB]", default="@", shell_complete=complete_job)
@click.option(
    "-f", "--follow", "follows", is_flag=True, help="Keep printing until the job has ended."
)
@click.option(
    "-n",
    "lines",
    type=whole_or_0,
    metavar="N",
    help=f"Print the last N lines; 0 for all [{LINES}].",
)
@click.option(
    "--attempt", type=whole_or_0, metavar="N", help="Output of this attempt [default: the last]."
)
@at_server
@shared
def logs(job: str, follows: bool, lines: int | None, attempt: int | None) -> int:
    """Print the output of a job, standard output and standard error together."""
    choices = chosen()
    desk = desk_of_machine(choices)
    if attempt is not None and Able.QUEUED not in desk_with(desk, job).able:
        raise Invalid("--attempt is for jobs on this machine")
    found, errors = desk.find([job])
    if not found:
        return report_all(errors)
    wanted = LINES if lines is None else lines
    if len(found) > 1:
        return _logs_of_many(choices, desk, found, wanted, follows)
    view = found[0]
    output = JobOutput(desk_with(desk, view.label), view.number or view.label, attempt)
    cut = output.begin(wanted)
    if cut and lines is None:
        there = f" --url {sh(choices.url)}" if choices.url else ""
        notice(f"the last {LINES} lines; all of them: andon logs {sh(job)} -n 0" + there, choices)
    if not output.show() and not follows and view.started is None:
        why = f": {view.reason}" if view.reason else ""
        notice(f"job {view.label} has not started: it is {view.state.text}{why}", choices)
    if follows:
        follow(choices, output)
    return 0


def _logs_of_many(
    choices: Choices, desk: JobDesk, found: Sequence[JobView], lines: int, follows: bool
) -> int:
    """Prints the output of each job under a line with its parameters; then follows it until all
    have ended."""
    outputs = {
        one.label: JobOutput(desk_with(desk, one.label), one.number or one.label) for one in found
    }
    titles = {one.label: " ".join((one.label, *map("=".join, one.params.items()))) for one in found}
    shown = list[str]()

    def show(label: str) -> bool:
        text = outputs[label].read()
        if text and shown[-1:] != [label]:
            write(sys.stdout, f"==> job {harmless(titles[label])} <==\n")
            shown.append(label)
        write(sys.stdout, text)
        return bool(text)

    for output in outputs.values():
        output.begin(lines)
    for label in outputs:
        while show(label):
            pass
    if follows:
        for _, some in groupby(outputs, lambda label: desk_with(desk, label).name):
            follow_many({label: outputs[label] for label in some}, show)
    elif not shown:
        notice(f"none of these {counted(len(found), 'job')} has printed anything yet", choices)
    return 0
