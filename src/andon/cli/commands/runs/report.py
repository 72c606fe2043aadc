"""`andon runs report`: what a run used, whether it was worth it, and what to improve."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from andon.cli.commands.reporting import as_document, deliver, format_option
from andon.cli.commands.runs.opened import RUN_FORMS, complete_run
from andon.cli.options import at_server, chosen, shared
from andon.cli.sources import node_of
from andon.cli.terminal import Terminal

if TYPE_CHECKING:
    from andon.runs.rules.reports.report import RunReport


@click.command(epilog=RUN_FORMS)
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@format_option("text, md, html (one file, with charts), json or csv.", default="text")
@at_server
@shared
def report(run: str, form: str, out: Path | None) -> int:
    """Report what a run used, and what to improve.

    Devices, idle and throttled time, memory, energy, wasted GPU hours, alerts, throughput, and
    advice with its evidence. Cost and CO2 are included if runs.price_per_kwh and
    runs.co2_grams_per_kwh are set.
    """
    from andon.cli.commands.runs.reading import prices, read_report

    source = node_of(chosen()).runs
    row = source.with_record(source.resolve(run))
    terminal = Terminal.of(chosen())
    deliver(_text(read_report(row, prices()), form, terminal, out is not None), out, terminal)
    return 0


def _text(found: "RunReport", form: str, terminal: Terminal, plain: bool) -> str:
    from andon.runs.rules.reports.advice import advice_on

    advice = advice_on(found)
    if form in ("json", "csv"):
        from andon.cli.json_text import as_json_text
        from andon.cli.show.reports.report_rows import report_csv, report_json

        if form == "csv":
            return report_csv(found)
        return as_json_text(report_json(found, advice), terminal.live and not plain)
    from andon.cli.show.reports.run_report import run_document

    return as_document(run_document(found, advice), form, terminal, plain)
