"""`andon runs report`: what a run used, whether it was worth it, and what to improve."""

from pathlib import Path

import click

from andon.cli.commands.reporting import as_document, deliver, format_option, prices_of
from andon.cli.commands.runs.compare import sweep_of
from andon.cli.commands.runs.opened import RUN_FORMS, complete_run
from andon.cli.commands.runs.reading import read_report
from andon.cli.options import at_server, chosen, shared
from andon.cli.show.reports.document import section, sentences
from andon.cli.show.reports.report_rows import DEVICES, report_json
from andon.cli.show.reports.run_report import run_document
from andon.cli.show.reports.sweep import best_sentences, run_charts, shown, sweep_document
from andon.cli.sources import node_of, settings_of
from andon.cli.terminal import Terminal
from andon.errors import Invalid
from andon.node.port import NodeRuns
from andon.runs.rules.reports.advice import advice_on
from andon.runs.rules.reports.report import RunReport
from andon.runs.rules.reports.sweep import best_rows, parse_limit

MOST_CHARTED = 6  # rows whose runs have lines in the charts


@click.command(epilog=RUN_FORMS)
@click.argument("run", metavar="RUN", required=False, shell_complete=complete_run)
@click.option("--group", metavar="GROUP", help="Report on all runs of this group instead.")
@click.option("--by", metavar="NAME", help="With --group: rank by this measure.")
@click.option("--slo", multiple=True, metavar="LIMIT", help="With --group: first-token=500ms.")
@format_option("text, md, html (one file, with charts), json or csv.", default="text")
@at_server
@shared
def report(
    run: str | None,
    group: str | None,
    by: str | None,
    slo: tuple[str, ...],
    form: str,
    out: Path | None,
) -> int:
    """Report what a run used, and what to improve.

    Devices, idle and throttled time, memory, energy, wasted GPU hours, alerts, throughput, and
    advice with its evidence. Cost and CO2 are included if runs.price_per_kwh and
    runs.co2_grams_per_kwh are set.
    """
    if (run is None) == (group is None):
        raise click.UsageError("name a RUN, or --group")
    source = node_of(chosen()).runs
    if group is not None or run is None:
        return _of_group(source, group or "", by, slo, form, out)
    found = read_report(source, source.resolve(run), prices_of(settings_of(chosen())))
    terminal = Terminal.of(chosen())
    deliver(_text(found, form, terminal, out is not None), form, out, terminal)
    return 0


def _of_group(
    source: NodeRuns,
    group: str,
    by: str | None,
    slo: tuple[str, ...],
    form: str,
    out: Path | None,
) -> int:
    """One page about a group: its table, the best rows, four charts over time."""
    if form in ("json", "csv"):
        raise click.UsageError("for JSON and CSV: andon runs compare --group")
    limits = [parse_limit(one) for one in slo]
    rows, table = sweep_of(source, group, by, ())
    if table is None:
        raise Invalid(
            f"the runs of {group[:40]!r} do not differ in a parameter", hint="runs compare --group"
        )
    known, reports = {row.id: row for row in rows}, []
    for row in table.rows[:MOST_CHARTED]:
        label = " ".join(f"{name}={shown(row.params[name])}" for name in table.params)
        reports.append((label, read_report(source, known[row.runs[0]])))
    best = sentences(best_sentences(table, best_rows(table, limits)))
    charts = section("Over time, the first run of each", *run_charts(reports))
    simulated = any(row.simulated for row in rows)
    document = sweep_document(table, group, simulated, section("Best", best), charts)
    terminal = Terminal.of(chosen())
    deliver(as_document(document, form, terminal, out is not None), form, out, terminal)
    return 0


def _text(found: RunReport, form: str, terminal: Terminal, plain: bool) -> str:
    advice = advice_on(found)
    if form in ("json", "csv"):
        if form == "csv":
            return DEVICES.text((found, one) for one in found.devices)
        return terminal.json_text(report_json(found, advice), plain)

    return as_document(run_document(found, advice), form, terminal, plain)
