"""`andon runs`: lists runs; its commands read and mark them."""

import time

import click
from msgspec.structs import replace

from andon.cli.commands.command_group import CommandGroup
from andon.cli.moments import moment
from andon.cli.options import chosen, elsewhere, shared, whole_or_0
from andon.cli.show.runs.listing import RUNS, render_runs
from andon.cli.show.text import styled
from andon.cli.sources import node_of
from andon.cli.terminal import Terminal, notice
from andon.model.codec import to_json
from andon.model.run.record import RunRow, RunState
from andon.model.run.wire import RUNS_SCHEMA
from andon.runs.rules.matching import PINNED, RunQuery

SHOWN = 50
COMMANDS = {
    "show": ("show:show", "One run: what it was, how it ended, what it used."),
    "tail": ("tail:tail", "The latest samples of a run, once or live."),
    "export": ("export:export", "The samples as CSV, JSON lines or Parquet."),
    "report": ("report:report", "What a run used, and what could be better."),
    "compare": ("compare:compare", "Runs side by side."),
    "add": ("add:add", "Add records of any folder or machine to the list."),
    "tag": ("marking:tag", "Add tags to a run, or remove them."),
    "pin": ("marking:pin", "List a run first, and keep it."),
    "note": ("marking:note", "Write a note on a run."),
    "rm": ("marking:rm", "Delete runs with their records."),
    "baseline": ("baseline:baseline", "Name good runs, and check others against them."),
}
"""Name → module and attribute in this folder, and its line in the overview."""


@click.group(
    cls=CommandGroup,
    package=__package__,
    commands=COMMANDS,
    invoke_without_command=True,
)
@click.option("--since", type=moment, metavar="WHEN", help="Only runs begun since: 7d, yesterday.")
@click.option("--name", metavar="NAME", help="Only runs of this name; * and ? are wildcards.")
@click.option("--tag", metavar="TAG", help="Only runs with this tag.")
@click.option("--group", metavar="GROUP", help="Only runs of this group.")
@click.option(
    "--state",
    type=click.Choice([str(one) for one in RunState]),
    metavar="STATE",
    help=f"Only runs in this state: {', '.join(RunState)}.",
)
@click.option("--search", metavar="TEXT", help="Only runs that contain this text.")
@click.option(
    "-n", "most", type=whole_or_0, metavar="N", help=f"The newest N; 0 for all [default: {SHOWN}]."
)
@click.option("--json", "form", flag_value="json", help="Print andon.runs/1: UTC, bytes.")
@click.option("--csv", "form", flag_value="csv", help="Print CSV, one row per run.")
@elsewhere
@shared
@click.pass_context
def runs(
    context: click.Context,
    since: float | None,
    name: str | None,
    tag: str | None,
    group: str | None,
    state: str | None,
    search: str | None,
    most: int | None,
    form: str | None,
) -> int | None:
    """List recorded runs, newest first; the commands below show and compare them.

    Every `andon run`, `andon.run(...)` and callback writes a record. Those in the state folder are
    found automatically; `andon runs add DIR` adds others, also from other machines.
    """
    if context.invoked_subcommand is not None:
        return None
    wanted = RunQuery(
        since=since,
        name=name,
        tag=tag,
        group=group,
        state=None if state is None else RunState(state),
        words=() if search is None else (search,),
        limit=(SHOWN if most is None else most) or None,
    )
    source = node_of(chosen()).runs
    found = source.listed(wanted)
    pinned = () if form or tag is not None else source.find(replace(wanted, tag=PINNED))
    others = [row for row in found.rows if PINNED not in row.tags]
    _show([*pinned, *others] if pinned else found.rows, found.total, form)
    if found.note:
        notice(found.note, chosen())
    return 0


def _show(rows: list[RunRow], total: int, form: str | None) -> None:
    terminal = Terminal.of(chosen())
    if form == "json":
        terminal.show_json({"schema": RUNS_SCHEMA, "total": total, "runs": to_json(rows)})
        return

    if form == "csv":
        terminal.show_data(RUNS.text(rows))
    elif not rows:
        terminal.print(styled("no runs", "dim") if total == 0 else styled(""))
    else:
        url, node = chosen().url or "ssh:", chosen().node_name
        of_nodes = node is None and not url.startswith("ssh:")  # a hub has those of all its nodes
        terminal.print(*render_runs(rows, time.time(), terminal.width, of_nodes))
        if total > len(rows):
            terminal.remark(f"the newest {len(rows)} of {total}; all of them: -n 0", "dim")
