"""`andon jobs`: lists jobs; its commands act on them."""

import os
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from andon.cli.commands.command_group import CommandGroup
from andon.cli.commands.jobs.desks import desks_of
from andon.cli.commands.jobs.on import desk_of
from andon.cli.options import chosen, elsewhere, shared
from andon.cli.show.jobs import render_jobs, why
from andon.cli.show.text import Text, styled
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import AndonError
from andon.jobs.desk import Desks
from andon.jobs.rules.views import JobListing, latest_last
from andon.model.codec import document, to_json
from andon.model.job.facts import JobList, JobState, JobView

if TYPE_CHECKING:
    from andon.jobs.clusters.desk import ClusterDesk
    from andon.model.lease_list import LeaseList

FOLLOW_SECONDS, CLUSTERS_SECONDS = 1.0, 5.0
MOST_WAITING, MOST_ENDED = 50, 10  # shown without --all
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
LOCAL_ONLY = ("pause", "start")


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
@click.option("--on", metavar="NAME", help="Only jobs of this cluster, or of these hosts.")
@click.option("-f", "--follow", is_flag=True, help="Then print each change until all have ended.")
@click.option("--json", "as_json", is_flag=True, help="Print andon.jobs/1: UTC, bytes.")
@click.option(
    "--look", "only_list", is_flag=True, hidden=True
)  # from another machine: starts no dispatcher
@elsewhere
@shared
@click.pass_context
def jobs(
    context: click.Context,
    everything: bool,
    state: str | None,
    group: str | None,
    on: str | None,
    follow: bool,
    as_json: bool,
    only_list: bool,
) -> int | None:
    """List your jobs on this machine and on clusters: running, waiting, the last that ended.

    For a waiting job it shows why it waits, and its place in the queue. With --all it also shows
    who waits for GPUs on this machine, without names and commands; root sees everyone's jobs.
    """
    if context.invoked_subcommand is not None:
        _refuse_elsewhere(context.invoked_subcommand)
        return None
    if on is not None and (follow or chosen().url is not None):
        raise click.UsageError("--on lists the jobs of a cluster: leave out -f and --url")
    if chosen().url is not None:  # a list of jobs here needs no settings to find a node
        return _of_server(everything, follow, state, group, as_json)

    choices = chosen()
    desks, terminal = desks_of(choices, wakes=not only_list), Terminal.of(choices)
    book = cache(partial(_book, choices)) if everything and not follow else None
    parts = None if on is None else _parts(choices, on)
    clusters = desks.clusters if parts is None else lambda: parts
    own, left, paused = list[JobView](), 0, False
    if not parts:
        own, left, paused = _own(desks, everything or group is not None, state, group)
    there = _on_clusters(clusters, everything, state, book or _load)
    views = own + [one for one in there.views if group in (None, one.group)]
    more, lines = dict[str, Any](), list[Text]()
    if book is not None:
        from andon.cli.commands.jobs import everyone

        leases, unknown = book()
        users, notes = everyone.others_jobs(leases)
        views[len(own) : len(own)] = [one for one in users if state in (None, one.state)]
        for note in filter(None, (unknown, *notes)):
            notice(note, choices)
        more["queue"] = to_json(everyone.queue_rows(leases))
        lines = everyone.queue_lines(leases, terminal.width)
    if as_json:
        value = {**document(JobList(paused, views)), "clusters": to_json(there.clusters), **more}
        terminal.show_json(value)
        return 0
    _show(paused, views, left, terminal, there.notes, state is not None or group is not None)
    terminal.print(*lines)
    if follow:
        _follow(terminal, desks, group)
    return 0


def _load() -> None:
    """Imports the modules that show the list while the clusters answer."""
    import_module("andon.cli.show.jobs")


def _book(choices: Choices) -> "tuple[LeaseList, str | None]":
    """Reads the queue of the machine, for which its devices are read."""
    from andon.cli.commands.jobs.everyone import machine_queue

    _load()
    return machine_queue(choices)


def _own(
    desks: Desks, whole: bool, state: str | None, group: str | None
) -> tuple[list[JobView], int, bool]:
    """Returns the jobs of this machine to list, how many are left out, and whether they are paused:
    ended jobs, running ones, then waiting ones by position."""
    queue = desks.queue.fresh()
    known = queue.statuses
    wanted = [n for n, one in known.items() if state in (None, one.state)]
    wanted = [n for n in wanted if group in (None, queue.jobs[n].spec.group)]
    ended = [n for n in wanted if known[n].state.is_settled]
    running = [n for n in wanted if known[n].state is JobState.RUNNING]
    waiting = queue.in_order(set(wanted) - {*ended, *running})
    if whole:
        return queue.views([*ended, *running, *waiting]), 0, queue.paused
    last = ended[-(MOST_ENDED if state is None else MOST_WAITING) :]
    shown = [*last, *running, *waiting[:MOST_WAITING]]
    left = len(wanted) - len(shown) - (len(ended) - len(last) if state is None else 0)
    return queue.views(shown), left, queue.paused


def _parts(choices: Choices, on: str) -> "Sequence[ClusterDesk]":
    """Returns the desks of a cluster or of hosts; none for this machine."""
    desk = desk_of(choices, {"on": on}, lambda: None)
    return () if desk is None else desk.parts


def _on_clusters(
    named: "Callable[[], Sequence[ClusterDesk]]",
    everything: bool,
    state: str | None,
    meanwhile: Callable[[], object],
) -> JobListing:
    """Returns the jobs of all clusters; with `everything` root sees everyone's. Unreadable settings
    add a note and do not hide the list. `meanwhile` is called while the clusters answer."""
    try:
        clusters = named()
    except AndonError as error:
        return JobListing((), notes=(f"clusters are not known: {error.reason}",))
    if not clusters:
        return JobListing(())
    from andon.jobs.clusters.desk import list_together

    found = list_together(clusters, everything and os.getuid() == 0, meanwhile)
    wanted = [one for one in found.views if state in (None, one.state)]
    return replace(
        found, views=tuple(wanted if everything else latest_last(wanted, MOST_ENDED, MOST_WAITING))
    )


def _refuse_elsewhere(command: str) -> None:
    """Raises an error for commands that work only on the machine itself, or not over SSH."""
    url = chosen().url
    if url is not None and (command in LOCAL_ONLY or url.startswith("ssh:")):
        raise click.UsageError(f"{command} is done on the machine itself: leave out --url")


def _of_server(
    everything: bool, follow: bool, state: str | None, group: str | None, as_json: bool
) -> int:
    """Prints the jobs that a server shows this user, in the order of those here."""
    if follow:
        raise click.UsageError("--url lists the jobs of a server: leave out -f")
    from andon.cli.sources import node_of

    found = node_of(chosen()).jobs.listing()
    wanted = [one for one in found.views if state in (None, one.state)]
    wanted = [one for one in wanted if group in (None, one.group)]
    ended = [one for one in wanted if one.state.is_settled]  # the newest first
    active = [one for one in wanted if not one.state.is_settled]
    most = len(ended) if everything else MOST_ENDED
    terminal, views = Terminal.of(chosen()), latest_last([*reversed(ended), *active], most)
    if as_json:
        terminal.show_json(document(JobList(found.paused, views)))
    else:
        narrowed = state is not None or group is not None
        _show(found.paused, views, 0, terminal, found.notes, narrowed)
    return 0


def _follow(terminal: Terminal, desks: Desks, group: str | None) -> None:
    """Prints each change until all jobs have ended. Clusters are polled every five seconds."""
    known: dict[str, JobView] | None = None
    on_clusters: Sequence[JobView] = ()
    read_at = float("-inf")
    while known is None or any(not _is_over(view.state) for view in known.values()):
        if known is not None:
            time.sleep(FOLLOW_SECONDS)
        queue, before = desks.queue.fresh(), known or {}
        active = [n for n, one in queue.statuses.items() if not one.state.is_settled]
        found = queue.views([*active, *(one.number for one in before.values() if one.number)])
        if time.monotonic() - read_at >= CLUSTERS_SECONDS and (known is None or on_clusters):
            on_clusters = _on_clusters(desks.clusters, True, None, _load).views
            read_at = time.monotonic()
        now = {one.label: one for one in (*found, *on_clusters) if group in (None, one.group)}
        for label, view in now.items():
            if known is not None and (label not in known or known[label].state is not view.state):
                _changed(terminal, view)
        known = now


def _is_over(state: JobState) -> bool:
    return state.is_settled or state is JobState.HELD


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
        if not narrowed:
            empty = "no jobs" if chosen().url else "no jobs; andon submit -- COMMAND queues one"
            none = "no jobs are known" if notes else empty
        terminal.print(styled(none, "dim"))
    else:
        terminal.print(*render_jobs(views, time.time(), terminal.width))
    for note in notes:
        terminal.print(styled(f"– {note}", "yellow"))
    if views and left:
        terminal.remark(f"{left} more: andon jobs --all", "dim")
    if views and paused:
        terminal.remark("paused: nothing starts until andon jobs start", "yellow")


def _changed(terminal: Terminal, view: JobView) -> None:
    now = time.time()
    text = f"{time.strftime('%H:%M:%S', time.localtime(now))}  job {view.label} {view.state.text}"
    more = why(view, now)
    terminal.print(styled(f"{text}: {more}" if more else text))
