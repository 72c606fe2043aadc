"""`andon runs tail`: the latest samples of a run, once or live."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import click

from andon.cli.commands.runs.opened import RUN_FORMS, complete_run
from andon.cli.live_screen import LiveScreen, is_capable
from andon.cli.options import at_server, chosen, shared, whole
from andon.cli.show.runs.tail import line_texts, render_tail
from andon.cli.sources import node_of
from andon.cli.terminal import Terminal, notice
from andon.model.run.record import RunLine, RunState
from andon.runs.follower import RecordFollower
from andon.runs.index import is_alive
from andon.runs.rules.lines import RecentLines

SHOWN = 15
POLL_SECONDS = 0.5
CHECK_SECONDS = 2.0  # how often it is checked whether a silent run still lives
Draw = Callable[["RecentLines", "list[RunLine]", RunState], None]


def short(given: str | int) -> int:
    """Parses the value of -n: at most 1000 samples, more than a wide terminal has columns."""
    return whole(given, 1000)


@click.command(epilog=RUN_FORMS)
@click.argument("run", metavar="[RUN]", required=False, shell_complete=complete_run)
@click.option("--log", metavar="FILE", help="The file of a record, instead of RUN.")
@click.option(
    "-n", "most", type=short, default=SHOWN, show_default=True, metavar="N",
    help="How many of the latest samples and events.",
)  # fmt: skip
@click.option("--follow", "-f", is_flag=True, help="Keep printing until the run ends.")
@at_server
@shared
def tail(run: str | None, log: str | None, most: int, follow: bool) -> int:
    """Show the latest samples of a run: utilisation and memory of each GPU, and its events.

    Each block in a line is a sample, the latest on the right; a full block of memory is all of it.
    Below are the latest events, items with their durations, the end of a failed item's output, and
    logged values. Only the end of a record is read, and with -f only what is added.
    """
    if (run is None) == (log is None):
        raise click.UsageError("name either a RUN or --log FILE")
    if node_of(chosen()).url is not None and (follow or log is not None):
        raise click.UsageError("--url cannot be combined with --follow or --log")

    with RecordFollower(_path(run, log), most) as follower, ExitStack() as stack:
        recent = follower.recent()
        draw = _drawer(follower, follow, stack)
        state = _state(follower, recent)
        draw(recent, [], state)
        if follow and state is RunState.RUNNING:
            with suppress(KeyboardInterrupt):
                _go_on(follower, recent, draw)
    return 0


def _path(run: str | None, log: str | None) -> Path:
    if log is not None:
        return Path(log)
    source = node_of(chosen()).runs
    return source.record(source.resolve(run or ""))


def _go_on(follower: RecordFollower, recent: RecentLines, draw: Draw) -> None:
    for lines in _added(follower):
        recent.add_all(lines)
        state = _state(follower, recent)
        draw(recent, lines, state)
        if state is not RunState.RUNNING:
            return
    notice("the record was moved or deleted", chosen())


def _added(follower: RecordFollower) -> Iterator[list[RunLine]]:
    """Yields lines as soon as they are added; an empty list now and then while nothing happens."""
    checked = time.monotonic()
    while True:
        lines = follower.new()
        if lines or time.monotonic() - checked >= CHECK_SECONDS:
            checked = time.monotonic()
            yield lines
            if follower.is_gone:
                return
        else:
            time.sleep(POLL_SECONDS)


def _state(follower: RecordFollower, recent: RecentLines) -> RunState:
    if recent.end is not None:
        return recent.end.state
    alive = is_alive(follower.begin, follower.modified, time.time())
    return RunState.RUNNING if alive else RunState.LOST


def _drawer(follower: RecordFollower, follow: bool, stack: ExitStack) -> Draw:
    """Returns a function that redraws in place on a terminal and appends new lines elsewhere."""
    terminal = Terminal.of(chosen())
    if follow and terminal.live and is_capable():
        screen = stack.enter_context(LiveScreen())

        def redraw(recent: RecentLines, lines: list[RunLine], state: RunState) -> None:
            width, height = screen.size()
            texts = list(render_tail(recent, state, time.time(), width))
            screen.draw([text.paint(terminal.color) for text in texts[: height - 1]])

        return redraw
    first = [True]

    def append(recent: RecentLines, lines: list[RunLine], state: RunState) -> None:
        if first.pop() if first else state is not RunState.RUNNING:
            terminal.print(*render_tail(recent, state, time.time(), terminal.width))
            return
        for line in lines:
            for drawn in line_texts(line, follower.begin):
                terminal.print(drawn.fit(terminal.width))

    return append
