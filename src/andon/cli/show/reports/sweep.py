"""A sweep as a document and CSV: a row for each combination of its parameters."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from math import floor, log10
from typing import Any

from andon.cli.show.csv_table import CsvTable, attributes
from andon.cli.show.reports.document import (
    ChartLine,
    Document,
    Grid,
    LineChart,
    Section,
    section,
    sections,
    sentences,
)
from andon.cli.show.reports.run_comparison import value_text
from andon.cli.show.reports.run_report import CHARTS, MOST_CURVES
from andon.cli.show.text import UNKNOWN
from andon.model.device import reading_label
from andon.model.run.record import RunState
from andon.runs.rules.measures import LOGGED
from andon.runs.rules.reports.report import RunReport
from andon.runs.rules.reports.sweep import MeanSpread, SweepBest, SweepRow, SweepTable
from andon.units import GIB, and_more, counted, symbol_of, unit_of

TITLES = {
    "duration_seconds": "time", "mean_utilization_percent": "gpu", "peak_memory_bytes": "peak",
    "energy_joules": "energy",
}  # fmt: skip
STATES = {RunState.DEVICE_OUT_OF_MEMORY: "OOM", RunState.HOST_OUT_OF_MEMORY: "host OOM"}
MOST_LISTED = 4
CHART_POINTS = 120
MOST_DECIMALS = 6


def sweep_document(
    table: SweepTable, group: str, simulated: bool, *more: Section | None
) -> Document:
    """The table, and under it what it means; `more` are sections of a report."""
    count = sum(len(row.runs) for row in table.rows)
    return Document(
        title=f"Group {group}",
        subtitle=f"{counted(count, 'run')}, {counted(len(table.rows), 'combination')} of "
        f"{', '.join(table.params)}",
        warning="SIMULATED" if simulated else None,
        sections=sections(
            section("Combinations", sweep_grid(table)),
            *more,
            section("How to read this", sentences(_meaning(table), quiet=True)),
        ),
    )


def sweep_grid(table: SweepTable) -> Grid:
    names = table.measures
    columns = (*table.params, *table.over, *(_title(name) for name in names), "state", "")
    digits = {name: _decimals(table, name) for name in names}
    rows = tuple(
        (
            *(shown(row.params[name]) for name in table.params),
            *(listed(row.over[name]) for name in table.over),
            *(_value(name, row.values.get(name), digits[name], table.estimated) for name in names),
            _state(row),
            _mark(row),
        )
        for row in table.rows
    )
    text_columns = len(table.params) + len(table.over)
    ranked = len(table.by) or len(names)  # the measures that matter before state and mark
    ends = len(columns) - 2
    order = [*range(text_columns + ranked), ends, ends + 1, *range(text_columns + ranked, ends)]
    ranks = tuple(order.index(place) for place in range(len(columns)))
    return Grid(columns, rows, text_columns, ranks)


def best_sentences(table: SweepTable, found: Sequence[SweepBest]) -> list[str]:
    """One sentence for each measure."""
    out = []
    for one in found:
        under = f" under {one.limit}" if one.limit else ""
        label = one.measure.label.replace("_", " ")
        if one.row is None:
            out.append(f"Best {label}{under}: no combination keeps the limit.")
            continue
        which = " ".join(f"{name}={shown(one.row.params[name])}" for name in table.params)
        mean = one.row.values[one.measure.name].mean
        value = value_text(one.measure.name, mean, table.estimated)
        out.append(f"Best {label}{under}: {which} with {value}.")
    return out


def run_charts(reports: Sequence[tuple[str, RunReport]]) -> list[LineChart]:
    """What they logged and the four readings over time, one line for each run: of a reading, the
    mean of its devices."""
    until = max((report.duration_seconds or 0.0 for _, report in reports), default=0.0)
    at = tuple(until * place / (CHART_POINTS - 1) for place in range(CHART_POINTS))
    logged = dict.fromkeys(name for _, report in reports for name in report.curves)
    found = [
        *((name, symbol_of(name), None, _logged, name) for name in islice(logged, MOST_CURVES)),
        *((reading_label(n).capitalize(), _unit(n), 0.0, _means, n) for n in CHARTS),
    ]
    charts = []
    for title, unit, low, column, name in found:
        drawn = [(label, _resampled(*column(report, name), at)) for label, report in reports]
        lines = tuple(ChartLine(label, values) for label, values in drawn if values)
        if lines:
            charts.append(LineChart(title, unit, at, lines, until, low))
    return charts


def _unit(name: str) -> str:
    return "GiB" if unit_of(name) == "bytes" else symbol_of(name)


_Column = tuple[Sequence[float], Sequence[float | None]]
"""Times and values."""


def _logged(report: RunReport, name: str) -> _Column:
    curve = report.curves.get(name)
    return ((), ()) if curve is None else (curve.at, curve.mean or curve.last)


def _means(report: RunReport, name: str) -> _Column:
    """Returns the mean of the devices."""
    series = report.series
    if series is None:
        return (), ()
    factor = GIB if unit_of(name) == "bytes" else 1.0
    points = [values[name] for values in series.devices.values() if name in values]
    means = list[float | None]()
    for column in zip(*points, strict=True):
        known = [one for one in column if one is not None]
        means.append(sum(known) / len(known) / factor if known else None)
    return (series.at, means) if means else ((), ())


def _resampled(
    times: Sequence[float], values: Sequence[float | None], at: Sequence[float]
) -> tuple[float | None, ...]:
    """Returns the last value before each of these times, None beyond the last one; empty if there
    is none."""
    if not times:
        return ()
    out, place = list[float | None](), 0
    for moment in at:
        while place + 1 < len(times) and times[place + 1] <= moment:
            place += 1
        out.append(values[place] if times[0] <= moment <= times[-1] + 1.0 else None)
    return tuple(out)


def shown(value: Any) -> str:
    return UNKNOWN if value is None else str(value)


def listed(values: Sequence[Any]) -> str:
    """`1..5`, or the values."""
    whole = len(values) > 1 and all(type(one) is int for one in values)
    if whole and list(values) == list(range(values[0], values[-1] + 1)):
        return f"{values[0]}..{values[-1]}"
    return ", ".join(map(shown, values[:MOST_LISTED])) + and_more(len(values) - MOST_LISTED)


def _title(name: str) -> str:
    return TITLES.get(name) or name.removeprefix(LOGGED).replace("_", " ")


def _decimals(table: SweepTable, name: str) -> int | None:
    """How many digits all values of a column need so that each deviation shows one; None
    without deviations."""
    found = [row.values[name].deviation for row in table.rows if name in row.values]
    needed = [-floor(log10(one)) for one in found if one]
    return min(MOST_DECIMALS, max(0, *needed, 0)) if needed else None


def _value(name: str, found: MeanSpread | None, digits: int | None, estimated: bool) -> str:
    if found is None:
        return UNKNOWN
    if not name.startswith(LOGGED) or digits is None:
        return value_text(name, found.mean, estimated)
    mean = f"{found.mean:.{digits}f}"
    return mean if found.deviation is None else f"{mean} ± {found.deviation:.{digits}f}"


def _state(row: SweepRow) -> str:
    total = row.succeeded + sum(row.others.values())
    others = ", ".join(
        f"{count} {STATES.get(RunState(state), state.replace('_', ' '))}"
        for state, count in row.others.items()
    )
    return f"{row.succeeded} of {total}" + (f" ({others})" if others else "")


def _mark(row: SweepRow) -> str:
    return ", ".join(
        word for word, is_so in (("best", row.is_best), ("front", row.on_front)) if is_so
    )


def _meaning(table: SweepTable) -> list[str]:
    out = []
    if table.over:
        out.append(
            f"Values are means ± standard deviation over {', '.join(table.over)}, of the runs "
            "that succeeded."
        )
    for place, one in enumerate(table.by):
        less = "highest" if one.higher else "lowest"
        then = "; best is the first row" if place == 0 else ""
        out.append(f"{one.label}: the {less} is better{then}.")
    if len(table.by) > 1:
        out.append("front: no other combination is at least as good in all of these.")
    return out


def sweep_csv(table: SweepTable) -> str:
    columns: dict[str, Callable[[SweepRow], object]] = {}
    for name in table.params:
        columns[name] = lambda row, name=name: row.params[name]  # type: ignore[misc]
    for name in table.over:
        columns[name] = lambda row, name=name: listed(row.over[name])  # type: ignore[misc]
    for name in table.measures:
        read = attributes(("mean", "deviation"), partial(_measured, name))
        label = name.removeprefix(LOGGED)
        columns |= {label: read["mean"], f"{label}_deviation": read["deviation"]}
    columns |= {"succeeded": lambda row: row.succeeded, "runs": lambda row: len(row.runs)}
    columns |= {"best": lambda row: row.is_best, "front": lambda row: row.on_front}
    return CsvTable(columns).text(table.rows)


def _measured(name: str, row: SweepRow) -> MeanSpread | None:
    return row.values.get(name)
