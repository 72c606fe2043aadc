"""`andon runs show`: one run, its facts and what it used."""

import time

import click

from andon.cli.commands.runs.opened import RUN_FORMS, complete_run, record_of
from andon.cli.json_text import as_json_text
from andon.cli.options import at_server, chosen, shared
from andon.cli.show.runs.detail import RunShown, render_run
from andon.cli.show.text import say
from andon.cli.sources import node_of
from andon.cli.terminal import Terminal
from andon.model.run.record import RunState
from andon.model.shapes import to_json
from andon.model.wire import Json
from andon.runs.files import read_ends

SCHEMA = "andon.run_details/1"


@click.command(epilog=RUN_FORMS)
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.option("--json", "as_json", is_flag=True, help="Print andon.run_details/1: UTC, bytes.")
@at_server
@shared
def show(run: str, as_json: bool) -> int:
    """Show one run: what it was, how it ended, and what it used of each GPU.

    If the run has ended, only the two ends of its record are read, so that a record of any size
    opens at once. `andon runs tail` follows a run in progress.
    """
    shown, terminal = read_run(run), Terminal.of(chosen())
    if as_json:
        terminal.show(as_json_text(run_to_json(shown), terminal.live))
        return 0

    for line in render_run(shown, time.time(), terminal.width):
        terminal.say(line)
    if not terminal.quiet:
        verb = "tail" if shown.row.state is RunState.RUNNING else "report"
        terminal.say(say(f"Next: andon runs {verb} {shown.row.id}", "dim"))
    return 0


def read_run(word: str) -> RunShown:
    """Returns the named run with its record as it is now."""
    source = node_of(chosen()).runs
    row = source.resolve(word)
    read = record_of(source, row, read_ends)
    return RunShown(
        row, read.begin, read.fold, read.size_bytes, read.whole, read.unreadable, read.problem
    )


def run_to_json(shown: RunShown) -> Json:
    return {
        "schema": SCHEMA,
        "run": to_json(shown.row),
        "begin": to_json(shown.begin),
        "facts": to_json(shown.fold.facts),
        "end": to_json(shown.fold.end),
        "summary": to_json(shown.fold.summary()),
    }
