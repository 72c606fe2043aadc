"""`andon jobs`: lists jobs; its commands act on them."""

import time
from collections.abc import Sequence
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from andon.cli.commands.command_group import CommandGroup
from andon.cli.commands.jobs.clusters import ClusterFollower, ClusterJobs, cluster_list
from andon.cli.commands.jobs.common import MOST_ENDED, MOST_WAITING, open_queue, wait_settled
from andon.cli.options import chosen, elsewhere, shared
from andon.cli.show.jobs import render_jobs, why
from andon.cli.show.text import say
from andon.cli.terminal import Choices, Terminal, notice
from andon.jobs.queue import Queue
from andon.jobs.rules.views import latest_last
from andon.model.job.facts import JobState, JobView, views_to_json

if TYPE_CHECKING:
    from andon.model.lease_list import LeaseList

FOLLOW_SECONDS = 1.0
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
@click.option("--group", metavar="GROUP", help="Only jobs of this group, all of them.")
@click.option("-f", "--follow", is_flag=True, help="Then print each change until all have ended.")
@click.option("--json", "as_json", is_flag=True, help="Print andon.jobs/1: UTC, bytes.")
@click.option("--look", is_flag=True, hidden=True)  # from another machine: starts no dispatcher
@elsewhere
@shared
@click.pass_context
def jobs(
    context: click.Context,
    everything: bool,
    state: str | None,
    group: str | None,
    follow: bool,
    as_json: bool,
    look: bool,
) -> int | None:
    """List your jobs on this machine and on clusters: running, waiting, the last that ended.

    For a waiting job it shows why it waits, and its place in the queue. With --all it also shows
    who waits for GPUs on this machine, without names and commands; root sees everyone's jobs.
    """
    if chosen().url is not None:  # a list of jobs here needs no settings to find a node
        return _of_server(context, everything or follow, state, group, as_json)
    if context.invoked_subcommand is not None:
        return None

    choices = chosen()
    queue = open_queue(choices, wake=not look)
    numbers, left = _shown(queue, everything or group is not None, state)
    terminal = Terminal.of(choices)
    book = cache(partial(_book, choices)) if everything and not follow else None
    there = cluster_list(choices, state, everything, book or _load)
    if group is not None:
        numbers = [number for number in numbers if queue.jobs[number].spec.group == group]
        there = there._replace(views=[one for one in there.views if one.group == group])
    views = queue.views(numbers)
    if book is not None:
        return _show_machine(choices, queue, views, there, state, as_json, book())
    if as_json:
        _show_json(terminal, [*views, *there.views], queue.paused, there)
        return 0
    narrowed = state is not None or group is not None
    _show(queue.paused, [*views, *there.views], left, terminal, there.notes, narrowed)
    if follow:
        _follow(choices, queue, terminal, there, group)
    return 0


def _load() -> None:
    """Imports what shows the list, while clusters are asked."""
    import_module("andon.cli.show.jobs")


def _book(choices: Choices) -> "tuple[LeaseList, str | None]":
    """Reads the queue of the machine, for which its devices are read."""
    from andon.cli.commands.jobs.everyone import machine_queue

    _load()
    return machine_queue(choices)


def _of_server(
    context: click.Context, more: bool, state: str | None, group: str | None, as_json: bool
) -> int:
    """Prints the jobs that a server shows this user, in the order of those here."""
    if context.invoked_subcommand is not None or more:
        raise click.UsageError("--url lists the jobs of a server: leave out --all, -f and commands")
    from andon.cli.sources import node_of

    found = node_of(chosen()).jobs.page()
    wanted = [one for one in found.views if state is None or one.state == state]
    wanted = [one for one in wanted if group is None or one.group == group]
    terminal, views = Terminal.of(chosen()), latest_last(wanted, MOST_ENDED)
    if as_json:
        from andon.cli.json_text import as_json_text

        terminal.show(as_json_text(views_to_json(views, found.paused), terminal.live))
    else:
        narrowed = state is not None or group is not None
        _show(found.paused, views, 0, terminal, found.notes, narrowed)
    return 0


def _show_json(
    terminal: Terminal, views: Sequence[JobView], paused: bool, there: ClusterJobs, **more: Any
) -> None:
    from andon.cli.json_text import as_json_text

    said = {**views_to_json(views, paused), "clusters": there.to_json(), **more}
    terminal.show(as_json_text(said, terminal.live))


def _follow(
    choices: Choices,
    queue: Queue,
    terminal: Terminal,
    there: ClusterJobs,
    group: str | None = None,
) -> None:
    """Prints each change until all jobs have ended, those of clusters included."""
    follower = ClusterFollower(choices, there, lambda view: _changed(terminal, view))
    active = [n for n, found in queue.statuses.items() if not found.state.is_settled]
    active = [n for n in active if group is None or queue.jobs[n].spec.group == group]
    wait_settled(queue, active, lambda view: _changed(terminal, view), follower.look)
    while follower.active:
        time.sleep(FOLLOW_SECONDS)
        follower.look()


def _show_machine(
    choices: Choices,
    queue: Queue,
    views: list[JobView],
    there: ClusterJobs,
    state: str | None,
    as_json: bool,
    read: "tuple[LeaseList, str | None]",
) -> int:
    """Prints all of the user's own jobs, the machine's queue, and for root everyone's jobs."""
    from andon.cli.commands.jobs import everyone

    terminal = Terminal.of(choices)
    book, unknown = read
    others, notes = everyone.others_jobs(book)
    more = [one for one in others if state is None or one.state == state]
    views = [*views, *more, *there.views]
    for note in filter(None, (unknown, *notes)):
        notice(note, choices)
    if as_json:
        _show_json(terminal, views, queue.paused, there, queue=everyone.queue_to_json(book))
        return 0
    _show(queue.paused, views, 0, terminal, there.notes, state is not None)
    terminal.say(*everyone.queue_lines(book, terminal.width))
    return 0


def _shown(queue: Queue, everything: bool, state: str | None) -> tuple[list[int], int]:
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


def _show(
    paused: bool,
    views: Sequence[JobView],
    left: int,
    terminal: Terminal,
    notes: Sequence[str],
    narrowed: bool,
) -> None:
    if not views:
        none = "no such jobs; andon jobs --all lists all of them"
        none = none if narrowed else "no jobs; andon submit -- COMMAND queues one"
        terminal.say(say(none, "dim"))
    else:
        terminal.say(*render_jobs(views, time.time(), terminal.width))
    for note in notes:
        terminal.say(say(f"– {note}", "yellow"))
    if terminal.quiet or not views:
        return
    if left:
        terminal.say(say(f"{left} more: andon jobs --all", "dim"))
    if paused:
        terminal.say(say("paused: nothing starts until andon jobs start", "yellow"))


def _changed(terminal: Terminal, view: JobView) -> None:
    now = time.time()
    text = f"{time.strftime('%H:%M:%S', time.localtime(now))}  job {view.label} {view.state.words}"
    more = why(view, now)
    terminal.say(say(f"{text}: {more}" if more else text))
