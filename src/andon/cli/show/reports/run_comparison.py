"""Runs side by side as a document, JSON and CSV."""

from collections.abc import Iterator, Mapping
from typing import Any

from andon.cli.show.csv_table import CsvTable, attributes
from andon.cli.show.reports.document import (
    Document,
    Grid,
    Sentences,
    section,
    sections,
    sentences,
)
from andon.cli.show.reports.figures import rate, seconds_text, size, three
from andon.cli.show.text import UNKNOWN
from andon.model.shapes import to_json
from andon.runs.rules.measures import ITEMS, LEAST_RUNS, LOGGED, MEASURES, Order
from andon.runs.rules.reports.compare import (
    ComparedMeasure,
    ComparedSide,
    RunComparison,
    ScalingReport,
)
from andon.units import fixed, human_joules

SCHEMA = "andon.run_comparison/1"


def comparison_document(found: RunComparison, devices: Mapping[str, str]) -> Document:
    """The comparison as a document. `devices`: the text for each side's devices, by label."""
    labels = [side.label for side in found.sides]
    return Document(
        title=f"{len(labels)} sides" if len(labels) > 2 else " and ".join(labels),
        subtitle=_subtitle(found),
        sections=sections(
            section("Runs", _sides(found, devices), _different(devices)),
            section("Measures", _measures(found)),
            section("Scaling", *_scaling(found.scaling)),
            section("How to read this", sentences(_meaning(found), quiet=True)),
        ),
    )


def _title(name: str) -> str:
    return MEASURES[name].label.capitalize() if name in MEASURES else name.removeprefix(LOGGED)


def _subtitle(found: RunComparison) -> str:
    count = sum(len(side.runs) for side in found.sides)
    ranked = f", by {found.by.removeprefix(LOGGED)}, the lowest first" if found.by else ""
    return f"{count} runs side by side{ranked}"


def _sides(found: RunComparison, devices: Mapping[str, str]) -> Grid:
    rows = tuple(
        (
            side.label,
            devices.get(side.label) or UNKNOWN,
            " ".join(run.id for run in side.runs),
            str(len(side.runs)),
        )
        for side in found.sides
    )
    return Grid(("side", "devices", "ids", "runs"), rows, text_columns=3)


def _different(devices: Mapping[str, str]) -> Sentences | None:
    """Returns a warning if the models differ: such numbers say little about the program."""
    models = {names.split("× ", 1)[-1] for names in devices.values() if names}
    if len(models) < 2:
        return None
    return sentences(["The sides ran on different models of device."], quiet=True)


def _measures(found: RunComparison) -> Grid | None:
    """Returns one table, with the sides below each other; a measure is named once."""
    estimated = any(run.estimated for side in found.sides for run in side.runs)
    rows = tuple(
        ("" if place else _title(measure.name), *_row(measure, side, estimated))
        for measure in found.measures
        for place, side in enumerate(measure.sides)
    )
    columns = ("measure", "side", "median", "range", "change", "verdict")
    return Grid(columns, rows, text_columns=2) if rows else None


def _row(measure: ComparedMeasure, side: ComparedSide, estimated: bool) -> tuple[str, ...]:
    name, spread = measure.name, side.spread
    if spread is None:
        return side.label, UNKNOWN, "", "", ""
    three = (spread.low, spread.median, spread.high)
    low, middle, high = (value_text(name, one, estimated) for one in three)
    between = f"{low} to {high}" if spread.count > 1 else ""
    change = _change(side, measure.in_points)
    return side.label, middle, between, change, side.verdict or ""


def _change(side: ComparedSide, in_points: bool) -> str:
    if side.change is None:
        return ""
    return f"{side.change:+.1f} points" if in_points else f"{100 * side.change:+.1f} %"


def value_text(name: str, value: float, estimated: bool = False) -> str:
    """A measure with its unit; `estimated`: whether energy is."""
    match name:
        case "duration_seconds":
            return seconds_text(value)
        case "items_per_second":
            return rate(value, "items")
        case "steps_per_second":
            return rate(value, "steps")
        case "peak_memory_bytes":
            return size(value)
        case "energy_joules":
            return human_joules(value, estimated)
        case "mean_utilization_percent" | "idle_percent":
            return f"{fixed(value, 1)} %"
    return f"{value:.4g}"


def _scaling(found: ScalingReport | None) -> tuple[Grid | Sentences | None, ...]:
    if found is None:
        return ()
    rows = tuple(
        (
            str(row.devices),
            row.label,
            value_text(found.basis, row.median),
            f"{three(row.speed_up)} ×",
            f"{fixed(100 * row.efficiency)} %",
        )
        for row in found.rows
    )
    basis = "rate" if found.basis == ITEMS else "duration"
    grid = Grid(("devices", "side", basis, "speed-up", "efficiency"), rows, text_columns=2)
    if found.basis == ITEMS:
        return (grid,)
    assumed = "By duration, as there are no items: it assumes that every run did the same work."
    return grid, sentences([assumed], quiet=True)


def _meaning(found: RunComparison) -> list[str]:
    few = any(side.order is Order.UNKNOWN for measure in found.measures for side in measure.sides)
    out = ["Change and verdict are relative to the side that was named first."]
    if few:
        out.append(
            f"No verdict on sides with fewer than {LEAST_RUNS} runs: one run does not show how "
            "much runs vary."
        )
    else:
        out.append("A verdict is given only if the ranges do not overlap.")
    return out


def comparison_json(found: RunComparison, devices: Mapping[str, str]) -> dict[str, Any]:
    return {"schema": SCHEMA, "devices": dict(devices), **to_json(found)}


def sides_of(found: RunComparison) -> Iterator[tuple[ComparedMeasure, ComparedSide]]:
    return ((measure, side) for measure in found.measures for side in measure.sides)


SIDES: CsvTable[tuple[ComparedMeasure, ComparedSide]] = CsvTable(
    {
        "measure": lambda row: row[0].name,
        "side": lambda row: row[1].label,
        "runs": lambda row: row[1].spread and row[1].spread.count,
        **attributes(("median", "low", "high"), lambda row: row[1].spread),
        **attributes(("change", "verdict"), lambda row: row[1]),
    }
)
