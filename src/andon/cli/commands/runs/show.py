"""`andon runs show`: one run, its facts and what it used."""

import time

import click

from andon.cli.commands.runs.opened import RUN_FORMS, complete_run, record_of
from andon.cli.options import at_server, chosen, shared
from andon.cli.show.runs.detail import render_run
from andon.cli.sources import node_of
from andon.cli.terminal import Terminal
from andon.model.run.record import RunRow, RunState
from andon.model.shapes import to_json
from andon.model.wire import Json
from andon.runs.files import RecordRead, read_ends

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
    source, terminal = node_of(chosen()).runs, Terminal.of(chosen())
    row = source.resolve(run)
    read = record_of(source, row, read_ends)
    if as_json:
        terminal.show_json(run_to_json(row, read))
        return 0

    terminal.print(*render_run(row, read, time.time(), terminal.width))
    verb = "tail" if row.state is RunState.RUNNING else "report"
    terminal.remark(f"Next: andon runs {verb} {row.id}", "dim")
    return 0


def run_to_json(row: RunRow, read: RecordRead) -> Json:
    return {
        "schema": SCHEMA,
        "run": to_json(row),
        "begin": to_json(read.begin),
        "facts": to_json(read.fold.facts),
        "end": to_json(read.fold.end),
        "summary": to_json(read.fold.summary()),
    }
