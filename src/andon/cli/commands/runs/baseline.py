"""`andon runs baseline`: names good runs, and reports when a later one drifts from them."""

import re
import time

import click

from andon.cli.commands.command_group import SuggestingGroup
from andon.cli.commands.runs.opened import complete_run, finding, runs_named
from andon.cli.options import chosen, shared
from andon.cli.show.runs.drift import render_baselines, render_drift
from andon.cli.terminal import Terminal
from andon.errors import Conflict, Gone, Invalid
from andon.model.codec import document, to_json
from andon.model.run.record import RunRow, RunState
from andon.node.local.runs import LocalRuns
from andon.ports import RunIndex
from andon.runs.index import RunFinder
from andon.runs.rules.baselines import (
    BASELINES_SCHEMA,
    DriftReport,
    RunBaseline,
    baseline_of,
    drift,
)
from andon.units import counted

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
FORMS = (
    "RUN is an id or its prefix, the file of a record, last, or the name of runs, meaning all "
    "that succeeded."
)
MOST_RUNS = 100
DRIFTED = 1


def tolerance(text: str | float) -> float:
    """Parses the value of --tolerance: `5%` or `5`."""
    given = str(text).strip().removesuffix("%").strip()
    if re.fullmatch(r"\d{1,6}(\.\d{1,6})?", given):
        return float(given)
    raise click.BadParameter(f"{str(text)[:40]!r} is not a share (use 5%)")


@click.group(cls=SuggestingGroup, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print andon.baselines/1.")
@shared
@click.pass_context
def baseline(context: click.Context, as_json: bool) -> int | None:
    """Keep the numbers of good runs under a name, and check later runs against them.

    Without a command it lists the baselines. andon gc never deletes runs of a baseline.
    """
    if context.invoked_subcommand is not None:
        return None
    with finding() as finder:
        found = list(finder.index.baselines())
    terminal = Terminal.of(chosen())
    if as_json:
        terminal.show_json({"schema": BASELINES_SCHEMA, "baselines": to_json(found)})
        return 0

    terminal.print(*render_baselines(found, time.time(), terminal.width))
    return 0


@baseline.command(name="set", epilog=FORMS, short_help="Name runs that succeeded.")
@click.argument("name", metavar="NAME")
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, shell_complete=complete_run)
@shared
def set_(name: str, runs: tuple[str, ...]) -> int:
    """Name runs that succeeded; three or more show how much such runs vary."""
    if not NAME.fullmatch(name):
        hint = "letters, digits, points, dashes and underscores; 60 at most"
        raise Invalid(f"{name[:60]!r} is not a name", hint=hint)
    with finding() as finder:
        rows = _runs_named(finder, runs)
        made = baseline_of(name, time.time(), rows)
        if len(made.runs) > MOST_RUNS:
            raise Invalid(f"{len(made.runs)} runs", hint=f"a baseline has at most {MOST_RUNS}")
        finder.index.put_baseline(made)
    Terminal.of(chosen()).remark(f"baseline {name}: {counted(len(made.runs), 'run')}")
    return 0


@baseline.command(epilog=FORMS, short_help="Compare runs with a baseline; exit 1 if they drifted.")
@click.argument("name", metavar="NAME")
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, shell_complete=complete_run)
@click.option(
    "--tolerance",
    "percent",
    type=tolerance,
    default="5%",
    show_default=True,
    metavar="SHARE",
    help="How far a number may be off before it counts as drift.",
)
@click.option("--json", "as_json", is_flag=True, help="Print andon.drift/1.")
@shared
def check(name: str, runs: tuple[str, ...], percent: float, as_json: bool) -> int:
    """Compare a run, or several, with a baseline; the exit code is 1 if a number drifts.

    A number drifts if its median is off by more than the tolerance and is outside the range of the
    baseline; with three or more runs on each side, if the two ranges do not overlap. Utilisation
    and idle time are compared in percentage points.
    """
    return compare_with(name, runs, percent, as_json)


def refuse_missing(name: str) -> None:
    """Raises Gone if there is no such baseline."""
    with finding() as finder:
        _named(finder.index, name)


def compare_with(
    name: str, runs: tuple[str, ...], percent: float = 5.0, as_json: bool = False
) -> int:
    """Prints how far runs are from a baseline; returns the exit code."""
    with finding() as finder:
        baseline = _named(finder.index, name)
        rows = _runs_named(finder, runs)
    _refuse_unfinished(rows)
    lines = drift(baseline, rows, percent)
    found = DriftReport(baseline.name, [row.id for row in rows], percent, lines)
    failed = [row for row in rows if row.state is not RunState.SUCCEEDED]
    terminal = Terminal.of(chosen())
    if as_json:
        terminal.show_json(document(found))
    else:
        terminal.print(*render_drift(baseline, rows, lines, terminal.width))
    return DRIFTED if failed or found.drifted else 0


@baseline.command()
@click.argument("name", metavar="NAME")
@shared
def rm(name: str) -> int:
    """Forget a baseline; its runs stay."""
    with finding() as finder:
        if not finder.index.drop_baseline(name):
            raise _none(finder.index, name)
    return 0


def _runs_named(finder: RunFinder, names: tuple[str, ...]) -> list[RunRow]:
    """Returns runs by any of their names; a name means all runs of it that succeeded."""
    source = LocalRuns(finder)
    found = [runs_named(source, word) or [finder.resolve(word)] for word in names]
    return [row for rows in found for row in rows]


def _named(index: RunIndex, name: str) -> RunBaseline:
    for found in index.baselines():
        if found.name == name:
            return found
    raise _none(index, name)


def _none(index: RunIndex, name: str) -> Gone:
    known = ", ".join(found.name for found in index.baselines())
    hint = f"there are: {known}" if known else "andon runs baseline set NAME RUN…"
    return Gone(f"there is no baseline {name[:60]!r}", hint=hint)


def _refuse_unfinished(rows: list[RunRow]) -> None:
    for row in rows:
        if row.state is RunState.RUNNING:
            raise Conflict(
                f"run {row.id} ({row.name}) is still running", hint="check it when it has ended"
            )
