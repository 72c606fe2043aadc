"""The report of a run as JSON and CSV."""

from collections.abc import Sequence
from typing import Any

from andon.cli.show.csv_rows import csv_line
from andon.model.shapes import to_json
from andon.runs.rules.reports.advice import Advice
from andon.runs.rules.reports.report import READINGS, DeviceReport, RunReport

SCHEMA = "andon.run_report/1"
SPREAD = ("min", "mean", "p95", "max")
_RUN = ("run", "name", "state", "began", "duration_seconds")
_DEVICE = ("gpu", "uuid", "model", "samples")
_USED = (
    "idle_share", "throttle_share", "peak_memory_bytes", "memory_plateau_bytes", "energy_joules",
    "wasted_seconds", "items_done", "items_failed", "items_per_second",
)  # fmt: skip
CSV = (*_RUN, *_DEVICE, *(f"{name}_{part}" for name in READINGS for part in SPREAD), *_USED)


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
        "advice": [{**to_json(one), "words": one.words} for one in advice],
    }


def report_csv(report: RunReport) -> str:
    """One row per device."""
    return csv_line(CSV) + "".join(csv_line(_row(report, device)) for device in report.devices)


def _row(report: RunReport, found: DeviceReport) -> list[object]:
    begin, device, items = report.begin, found.device, found.items
    spreads = [found.readings.get(name) for name in READINGS]
    return [
        begin.id, begin.name, report.state, begin.at, report.duration_seconds,
        device.label, device.uuid, device.name, found.samples,
        *(None if s is None else getattr(s, part) for s in spreads for part in SPREAD),
        found.idle_share, found.throttle_share, found.peak_memory_bytes,
        found.plateau["bytes"] if found.plateau else None, found.energy_joules,
        found.wasted_seconds, items.done if items else None, items.failed if items else None,
        items.per_second if items else None,
    ]  # fmt: skip
