"""Named baselines: the numbers of good runs, and whether a later run drifts from them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from andon.errors import Conflict
from andon.model.codec import AnyNumber, Id, Name, Text, Time, read
from andon.model.run.record import RunRow, RunState
from andon.model.shapes import to_json
from andon.model.wire import Json
from andon.runs.rules.matching import devices_words
from andon.runs.rules.spread import (
    LEAST_RUNS,
    Order,
    SpreadOfRuns,
    change_of,
    order_of,
    spread_of,
)

PERCENT = 100.0
BASELINES_SCHEMA = "andon.baselines/1"
DRIFT_SCHEMA = "andon.drift/1"


# What runs are measured by: baselines, comparisons and sweeps use one table.

LOGGED = "log."  # in front of the names of a program's own values
DURATION, ITEMS, STEPS = "duration_seconds", "items_per_second", "steps_per_second"


class RunMeasure(NamedTuple):
    """A number of a run; a percentage is compared in points."""

    name: str
    label: str
    lower: str = "lower"  # what a run is called with a lower one
    higher: str = "higher"
    is_share: bool = False
    more_is_better: bool = False


MEASURES = {
    measure.name: measure
    for measure in (
        RunMeasure(DURATION, "duration", "faster", "slower"),
        RunMeasure(ITEMS, "items", "slower", "faster", more_is_better=True),
        RunMeasure(STEPS, "steps", "slower", "faster", more_is_better=True),
        RunMeasure("mean_utilization_percent", "utilisation", "less busy", "busier", True, True),
        RunMeasure("idle_percent", "idle", "less idle", "more idle", is_share=True),
        RunMeasure("peak_memory_bytes", "peak memory", "less", "more"),
        RunMeasure("energy_joules", "energy", "less", "more"),
    )
}
"""In the order in which they are listed; a program's own follow."""


def measure_of(name: str) -> RunMeasure:
    return MEASURES.get(name) or RunMeasure(name, name.removeprefix(LOGGED))


def in_order(names: Iterable[str]) -> list[str]:
    given = set(names)
    return [name for name in MEASURES if name in given] + sorted(given.difference(MEASURES))


class BaselineRun(Struct, frozen=True):
    """A run of a baseline, as it was: its record may be gone by now."""

    id: Id
    name: Name
    began: Time
    devices: Text  # in words
    values: Mapping[Name, AnyNumber] = field(default_factory=dict)


class RunBaseline(Struct, frozen=True):
    """Runs to compare with, under a name."""

    name: Name
    at: Time  # when it was set
    runs: tuple[BaselineRun, ...]


class DriftLine(Struct, frozen=True):
    """One measure: the baseline, the runs that are checked, and whether they drifted."""

    measure: RunMeasure
    baseline: SpreadOfRuns
    found: SpreadOfRuns
    change_percent: float | None  # points of a share; None where the baseline is 0
    order: Order
    drifted: bool


def values_of(row: RunRow) -> dict[str, float]:
    """Returns the numbers of a run by the names of `MEASURES`, without unknown ones."""
    idle = None if row.idle_share is None else row.idle_share * PERCENT
    found = {
        DURATION: row.duration_seconds,
        "mean_utilization_percent": row.mean_utilization_percent,
        "idle_percent": idle,
        "peak_memory_bytes": row.peak_memory_bytes,
        "energy_joules": row.energy_joules,
        **{LOGGED + name: value for name, value in row.last_values.items()},
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def baseline_of(name: str, at: float, rows: Sequence[RunRow]) -> RunBaseline:
    """Makes a baseline; raises Conflict for a run that did not succeed."""
    for row in rows:
        if row.state is not RunState.SUCCEEDED:
            raise Conflict(
                f"run {row.id} ({row.name}) is {row.state.replace('_', ' ')}",
                hint="a baseline is of runs that succeeded",
            )
    unique = {row.id: row for row in rows}.values()
    runs = (BaselineRun(r.id, r.name, r.began, devices_words(r), values_of(r)) for r in unique)
    return RunBaseline(name, at, tuple(runs))


def drift(
    baseline: RunBaseline, rows: Sequence[RunRow], tolerance_percent: float
) -> list[DriftLine]:
    """Returns one line for each number that both sides have."""
    before = [run.values for run in baseline.runs]
    after = [values_of(row) for row in rows]
    names = in_order(name for values in before for name in values)
    found = (_line(name, before, after, tolerance_percent) for name in names)
    return [line for line in found if line is not None]


def other_devices(baseline: RunBaseline, rows: Sequence[RunRow]) -> str | None:
    """Returns a sentence if the devices differ: then the numbers say little."""
    had = sorted({run.devices for run in baseline.runs if run.devices})
    has = sorted({words for row in rows if (words := devices_words(row))})
    if had == has or not had or not has:
        return None
    return f"other devices: {' and '.join(has)}; the baseline used {' and '.join(had)}"


def _line(
    name: str,
    before: Sequence[Mapping[str, float]],
    after: Sequence[Mapping[str, float]],
    tolerance_percent: float,
) -> DriftLine | None:
    old = spread_of(values.get(name) for values in before)
    new = spread_of(values.get(name) for values in after)
    if old is None or new is None:
        return None
    measure = measure_of(name)
    change = _change_percent(measure, new.median, old.median)
    beyond = new.median != old.median if change is None else abs(change) > tolerance_percent
    drifted = beyond and _is_outside(new, old)
    return DriftLine(measure, old, new, change, order_of(new, old), drifted)


def _change_percent(measure: RunMeasure, new: float, old: float) -> float | None:
    if measure.is_share:
        return new - old
    change = change_of(new, old)
    return None if change is None else change * PERCENT


def _is_outside(new: SpreadOfRuns, old: SpreadOfRuns) -> bool:
    """Whether a number drifted: with three or more runs on each side if the ranges do not meet;
    else the median decides."""
    if min(new.count, old.count) >= LEAST_RUNS:
        return order_of(new, old) is not Order.SAME
    return not old.low <= new.median <= old.high


def baselines_to_json(baselines: Sequence[RunBaseline]) -> Json:
    return {"schema": BASELINES_SCHEMA, "baselines": [to_json(one) for one in baselines]}


def baseline_from_json(value: Json) -> RunBaseline:
    """Parses a baseline; raises Wrong if it is none."""
    return read(RunBaseline, value)


def drift_to_json(
    baseline: RunBaseline, runs: Sequence[str], tolerance_percent: float, lines: Sequence[DriftLine]
) -> Json:
    """Returns the result of `andon runs baseline check` as JSON."""
    return {
        "schema": DRIFT_SCHEMA,
        "baseline": baseline.name,
        "runs": list(runs),
        "tolerance_percent": tolerance_percent,
        "drifted": any(line.drifted for line in lines),
        "measures": [_line_to_json(line) for line in lines],
    }


def _line_to_json(line: DriftLine) -> dict[str, Any]:
    return {
        "name": line.measure.name,
        "baseline": to_json(line.baseline),
        "found": to_json(line.found),
        "change_percent": line.change_percent,
        "order": str(line.order),
        "drifted": line.drifted,
    }
