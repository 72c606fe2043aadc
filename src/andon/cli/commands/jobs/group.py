"""`andon jobs`: lists jobs; its commands act on them."""

import time
from typing import TYPE_CHECKING

import click

from andon.cli.commands.command_group import CommandGroup
from andon.cli.options import chosen, shared
from andon.cli.show.text import say
from andon.cli.terminal import Choices, Terminal, notice
from andon.model.job import JobState

if TYPE_CHECKING:
    from andon.jobs.queue import Queue
    from andon.model.job import JobView

MOST_WAITING, MOST_ENDED = 50, 10
COMMANDS = {
    "show": ("acts:show", "One job: what it asks for, why it waits, how it ended."),
    "wait": ("acts:wait", "Wait until jobs have ended."),
    "retry": ("acts:retry", "Run ended jobs again."),
    "requeue": ("acts:requeue", "Stop running jobs and queue them again."),
    "hold": ("acts:hold", "Keep jobs from starting."),
    "resume": ("acts:resume", "Let held jobs start."),
    "rm": ("acts:rm", "Delete ended jobs with their output."),
    "move": ("acts:move", "Change a job's position among yours."),
    "cancel": ("cancel:cancel", "The same as andon cancel."),
    "logs": ("logs:logs", "The same as andon logs."),
    "pause": ("acts:pause", "Start no more jobs."),
    "start": ("acts:start", "Start jobs again after a pause."),
}
"""Name → module and attribute in this folder, and its line in the overview."""


@click.group(
    cls=CommandGroup,
    package=__package__,
    commands=COMMANDS,
    invoke_without_command=True,
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="All jobs, and the machine's queue (root: everyone's).",
)
@click.option(
    "--state",
    type=click.Choice([str(one) for one in JobState]),
    metavar="STATE",
    help=f"Only jobs in this state: {', '.join(JobState)}.",
)
@click.option("-f", "--follow", is_flag=True, help="Then print each change until all have ended.")
@click.option("--json", "as_json", is_flag=True, help="Print andon.jobs/1: UTC, bytes.")
@shared
@click.pass_context
def jobs(
    context: click.Context, everything: bool, state: str | None, follow: bool, as_json: bool
) -> int | None:
    """List your jobs on this machine: running, waiting, and the last that ended.

    For a waiting job it shows why it waits, and its position among yours. With --all it also shows
    who waits for GPUs on this machine, without names and commands; root sees everyone's jobs.
    """
    if context.invoked_subcommand is not None:
        return None
    from andon.cli.commands.jobs.common import open_queue, wait_settled

    choices = chosen()
    queue = open_queue(choices)
    numbers, left = _shown(queue, everything, state)
    terminal = Terminal.of(choices)
    views = queue.views(numbers)
    if everything and not follow:
        return _show_machine(choices, queue, views, state, as_json)
    if as_json:
        from andon.cli.json_text import as_json_text
        from andon.model.job.facts import views_to_json

        terminal.show(as_json_text(views_to_json(views, queue.paused), terminal.live))
        return 0
    _show(queue, views, left, terminal)
    if follow:
        active = [n for n, found in queue.statuses.items() if not found.state.is_settled]
        wait_settled(queue, active, lambda view: _changed(terminal, view))
    return 0


def _show_machine(
    choices: Choices, queue: "Queue", views: "list[JobView]", state: str | None, as_json: bool
) -> int:
    """Prints all of the user's own jobs, the machine's queue, and for root everyone's jobs."""
    from andon.cli.commands.jobs import everyone

    terminal = Terminal.of(choices)
    book, unknown = everyone.machine_queue(choices)
    others, notes = everyone.others_jobs(book)
    views = [*views, *(one for one in others if state is None or one.state == state)]
    for note in filter(None, (unknown, *notes)):
        notice(note, choices)
    if as_json:
        from andon.cli.json_text import as_json_text
        from andon.model.job.facts import views_to_json

        said = {**views_to_json(views, queue.paused), "queue": everyone.queue_to_json(book)}
        terminal.show(as_json_text(said, terminal.live))
        return 0
    _show(queue, views, 0, terminal)
    for line in everyone.queue_lines(book, terminal.width):
        terminal.say(line)
    return 0


def _shown(queue: "Queue", everything: bool, state: str | None) -> tuple[list[int], int]:
    """Returns the numbers to list and how many are left out: ended jobs, running ones, then
    waiting ones by position."""
    known = queue.statuses
    wanted = [n for n, one in known.items() if state is None or one.state == state]
    ended = [n for n in wanted if known[n].state.is_settled]
    running = [n for n in wanted if known[n].state is JobState.RUNNING]
    waiting = queue.in_order(set(wanted) - {*ended, *running})
    if everything:
        return [*ended, *running, *waiting], 0
    last = ended[-(MOST_ENDED if state is None else MOST_WAITING) :]
    shown = [*last, *running, *waiting[:MOST_WAITING]]
    return shown, len(wanted) - len(shown) - (len(ended) - len(last) if state is None else 0)


def _show(queue: "Queue", views: "list[JobView]", left: int, terminal: Terminal) -> None:
    from andon.cli.show.jobs import render_jobs

    if not views:
        terminal.say(say("no jobs; andon submit -- COMMAND queues one", "dim"))
        return
    for line in render_jobs(views, time.time(), terminal.width):
        terminal.say(line)
    if terminal.quiet:
        return
    if left:
        terminal.say(say(f"{left} more: andon jobs --all", "dim"))
    if queue.paused:
        terminal.say(say("paused: nothing starts until andon jobs start", "yellow"))


def _changed(terminal: Terminal, view: "JobView") -> None:
    from andon.cli.show.jobs import why

    now = time.time()
    text = f"{time.strftime('%H:%M:%S', time.localtime(now))}  job {view.label} {view.state.words}"
    more = why(view, now)
    terminal.say(say(f"{text}: {more}" if more else text))
