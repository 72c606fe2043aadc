"""`andon runs compare`: runs side by side."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from andon.cli.commands.reporting import as_document, deliver, format_option
from andon.cli.commands.runs.opened import complete_run, runs_named
from andon.cli.commands.runs.reading import read_report
from andon.cli.options import at_server, chosen, shared
from andon.cli.show.reports import run_comparison
from andon.cli.show.reports.sweep import sweep_csv, sweep_document
from andon.cli.sources import node_of
from andon.cli.terminal import Choices, Terminal
from andon.errors import Gone, Invalid
from andon.model.run.energy import POWER
from andon.model.run.record import RunRow
from andon.model.shapes import to_json
from andon.node.port import NodeRuns
from andon.runs.rules.matching import RunQuery, devices_text
from andon.runs.rules.measures import ITEMS, LOGGED, STEPS, bests_of, values_of
from andon.runs.rules.reports.compare import (
    ComparedRun,
    RunComparison,
    RunSide,
    sides_of,
    unique,
)
from andon.runs.rules.reports.compare import compare as side_by_side
from andon.runs.rules.reports.sweep import SweepTable, sweep_table

SIDE_FORMS = (
    "A SIDE is a RUN (an id or its prefix, the file of a record, or last), several separated by "
    "commas, or the name of runs, meaning all that succeeded."
)
SWEEP_SCHEMA = "andon.sweep/1"
Sides = list[tuple[str, list[RunRow]]]


@click.command(epilog=SIDE_FORMS)
@click.argument("sides", metavar="SIDE…", nargs=-1, shell_complete=complete_run)
@click.option("--group", metavar="GROUP", help="Compare the runs of this group instead.")
@click.option(
    "--by",
    metavar="NAME[,NAME]",
    help="Rank by a measure, or a value that was logged: loss, accuracy:max; of two the front.",
)
@click.option(
    "--over", multiple=True, metavar="PARAM", help="In a group: mean over this parameter [seed]."
)
@format_option("text, md, html, json or csv.", default="text")
@at_server
@shared
def compare(
    sides: tuple[str, ...],
    group: str | None,
    by: str | None,
    over: tuple[str, ...],
    form: str,
    out: Path | None,
) -> int:
    """Compare runs: medians, ranges, and how speed follows the number of devices.

    With three or more runs on each side, one is called faster or slower if the ranges do not
    overlap; with fewer, only the numbers are shown. In a group, runs with the same parameters form
    one side; if parameters differ, it is a table of them with means over seeds.
    """
    if bool(sides) == (group is not None):
        raise click.UsageError("name sides, or --group")

    source = node_of(chosen()).runs
    if group is not None:
        text = _swept(source, group, by, over, form, out is not None)
        if text is not None:
            deliver(text, form, out, Terminal.of(chosen()))
            return 0
    elif over:
        raise click.UsageError("--over is for --group")
    named = _of_group(source, group) if group is not None else _named(source, sides)
    _refuse_one(named)
    found = [RunSide(label, tuple(_compared(source, row) for row in rows)) for label, rows in named]
    devices = {label: " and ".join(sorted(set(map(devices_text, rows)))) for label, rows in named}
    terminal = Terminal.of(chosen())
    text = _text(side_by_side(found, by), devices, form, terminal, out is not None)
    deliver(text, form, out, terminal)
    return 0


def show_group(choices: Choices, group: str, by: str) -> None:
    """Prints the table of a group, if it has runs with that measure."""
    source, terminal = node_of(choices).runs, Terminal.of(choices)
    with suppress(Invalid):
        text = _swept(source, group, by, (), "text", plain=False)
        if text is not None:
            deliver(text, "text", None, terminal)


def sweep_of(
    source: NodeRuns, group: str, by: str | None, over: tuple[str, ...]
) -> tuple[Sequence[RunRow], SweepTable | None]:
    """Returns the runs of a group, and the table of their parameters if these differ."""
    rows = source.find(RunQuery(group=group))
    return rows, sweep_table(rows, [one for one in (by or "").split(",") if one], over)


def _swept(
    source: NodeRuns, group: str, by: str | None, over: tuple[str, ...], form: str, plain: bool
) -> str | None:
    """The group as a table of its parameters; None if its runs do not differ in any."""
    rows, table = sweep_of(source, group, by, over)
    if table is None:
        return None
    terminal = Terminal.of(chosen())
    if form == "json":
        value = {"schema": SWEEP_SCHEMA, "group": group, **to_json(table)}
        return terminal.json_text(value, plain)
    if form == "csv":
        return sweep_csv(table)
    simulated = any(row.simulated for row in rows)
    return as_document(sweep_document(table, group, simulated), form, terminal, plain)


def _refuse_one(sides: Sides) -> None:
    rows = [row for _, found in sides for row in found]
    if len({row.id for row in rows}) == 1:
        row = rows[0]
        hint = f"name another SIDE; alone: andon runs report {row.id}"
        raise Invalid(f"comparing needs two runs; {row.id} ({row.name}) is only one", hint=hint)


def _of_group(source: NodeRuns, group: str) -> Sides:
    rows = source.find(RunQuery(group=group))
    if not rows:
        raise Gone(
            f"no run belongs to the group {group[:40]!r}", hint="andon runs --json has groups"
        )
    return sides_of(rows)


def _named(source: NodeRuns, names: tuple[str, ...]) -> Sides:
    found = [_side(source, word) for word in names]
    return list(zip(unique([label for label, _ in found]), [r for _, r in found], strict=True))


def _side(source: NodeRuns, word: str) -> tuple[str, list[RunRow]]:
    """Returns the label and runs of one side: `a,b,c`, a name, or one run."""
    if "," in word:
        rows = [source.resolve(one.strip()) for one in word.split(",") if one.strip()]
        rows = list({row.id: row for row in rows}.values())
        if not rows:
            raise click.UsageError(f"{word[:40]!r} names no run")
        names = list(dict.fromkeys(row.name for row in rows))
        return " + ".join(names), rows
    if rows := runs_named(source, word):
        return word, rows
    row = source.resolve(word)
    return f"{row.name} {row.id}", [row]


def _compared(source: NodeRuns, row: RunRow) -> ComparedRun:
    """Returns a run's numbers from the list, and those that only the whole record has."""
    found = read_report(source, row)
    more = {ITEMS: found.items_per_second, STEPS: found.steps_per_second}
    known = {name: value for name, value in more.items() if value is not None}
    bests = {n: v for name in row.extremes for n, v in bests_of(row, LOGGED + name).items()}
    values = {**values_of(row), **bests, **known}
    return ComparedRun(row.id, len(row.devices), values, row.energy_source == POWER)


def _text(
    found: RunComparison, devices: dict[str, str], form: str, terminal: Terminal, plain: bool
) -> str:
    if form == "json":
        value = run_comparison.comparison_json(found, devices)
        return terminal.json_text(value, plain)
    if form == "csv":
        return run_comparison.SIDES.text(run_comparison.sides_of(found))
    return as_document(run_comparison.comparison_document(found, devices), form, terminal, plain)
