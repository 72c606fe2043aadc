"""The report of a run as JSON and CSV."""

from collections.abc import Callable, Sequence
from typing import Any

from andon.cli.show.csv_table import CsvTable, attributes
from andon.model.shapes import to_json
from andon.runs.rules.reports.advice import Advice
from andon.runs.rules.reports.report import READINGS, DeviceReport, RunReport

SCHEMA = "andon.run_report/1"
SPREAD = ("min", "mean", "p95", "max")


def report_json(report: RunReport, advice: Sequence[Advice]) -> dict[str, Any]:
    """Returns the report without the series, which `andon runs export` has."""
    found = {name: value for name, value in to_json(report).items() if name != "series"}
    return {
        "schema": SCHEMA,
        **found,
        "device_seconds": report.device_seconds,
        "wasted_seconds": report.wasted_seconds,
        "items_done": report.items_done,
        "items_per_second": report.items_per_second,
        "advice": [{**to_json(one), "words": one.text} for one in advice],
    }


ReportRow = tuple[RunReport, DeviceReport]


def _spread(name: str, part: str) -> Callable[[ReportRow], object]:
    return lambda row: None if (s := row[1].readings.get(name)) is None else getattr(s, part)


def _items(part: str) -> Callable[[ReportRow], object]:
    return lambda row: None if row[1].items is None else getattr(row[1].items, part)


DEVICES: CsvTable[ReportRow] = CsvTable(
    {
        "run": lambda row: row[0].begin.id,
        "name": lambda row: row[0].begin.name,
        "state": lambda row: row[0].state,
        "began": lambda row: row[0].begin.at,
        "duration_seconds": lambda row: row[0].duration_seconds,
        "gpu": lambda row: row[1].device.label,
        "uuid": lambda row: row[1].device.uuid,
        "model": lambda row: row[1].device.name,
        "samples": lambda row: row[1].samples,
        **{f"{name}_{part}": _spread(name, part) for name in READINGS for part in SPREAD},
        **attributes(("idle_share", "throttle_share", "peak_memory_bytes"), lambda row: row[1]),
        "memory_plateau_bytes": lambda row: row[1].plateau["bytes"] if row[1].plateau else None,
        **attributes(("energy_joules", "wasted_seconds"), lambda row: row[1]),
        "items_done": _items("done"),
        "items_failed": _items("failed"),
        "items_per_second": _items("per_second"),
    }
)
"""One row per device."""
