"""Reads whole records of runs for reports and comparisons."""

import time

from msgspec.structs import replace

from andon.cli.commands.runs.opened import record_of
from andon.cli.options import chosen
from andon.cli.terminal import notice
from andon.model.run.record import RunRow, RunState
from andon.node.port import NodeRuns
from andon.runs.files import read_record
from andon.runs.rules.reports.report import NO_PRICES, Prices, RunReport, report_of


def read_report(source: NodeRuns, row: RunRow, prices: Prices = NO_PRICES) -> RunReport:
    """Returns the report of the record as it is now, with the run's current tags. The user is
    the file's owner: the name inside the record proves nothing."""
    read = record_of(source, row, read_record)
    if not read.whole:
        notice(
            f"{row.path} is large: only the items and events at its two ends are shown", chosen()
        )
    alive = row.state is RunState.RUNNING
    found = report_of(read.fold, alive, time.time(), prices, read.whole)
    return replace(found, begin=replace(found.begin, tags=row.tags, user=row.user))
