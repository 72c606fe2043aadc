"""Named baselines: the numbers of good runs, and whether a later run drifts from them."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from andon.errors import Conflict
from andon.model.codec import AnyNumber, Id, JsonDocument, Name, Text, Time
from andon.model.run.record import RunRow, RunState
from andon.runs.rules.matching import devices_text
from andon.runs.rules.measures import (
    LEAST_RUNS,
    PERCENT,
    Order,
    RunMeasure,
    SpreadOfRuns,
    change_of,
    in_order,
    measure_of,
    order_of,
    spread_of,
    values_of,
)

BASELINES_SCHEMA = "andon.baselines/1"


class BaselineRun(Struct, frozen=True):
    """A run of a baseline, as it was: its record may be gone by now."""

    id: Id
    name: Name
    began: Time
    devices: Text  # as text
    values: Mapping[Name, AnyNumber] = field(default_factory=dict)


class RunBaseline(Struct, frozen=True):
    """Runs to compare with, under a name."""

    name: Name
    at: Time  # when it was set
    runs: tuple[BaselineRun, ...]


class DriftLine(Struct, frozen=True):
    """One measure: the baseline, the runs that are checked, and whether they drifted."""

    json_members = ("name", ...)
    json_without = ("measure",)
    measure: RunMeasure
    baseline: SpreadOfRuns
    found: SpreadOfRuns
    change_percent: float | None  # points of a share; None where the baseline is 0
    order: Order
    drifted: bool

    @property
    def name(self) -> str:
        return self.measure.name


class DriftReport(JsonDocument, frozen=True):
    """The result of `andon runs baseline check`."""

    schema = "andon.drift/1"
    json_members = ("baseline", "runs", "tolerance_percent", "drifted", ...)
    baseline: str
    runs: Sequence[str]
    tolerance_percent: float
    measures: Sequence[DriftLine]

    @property
    def drifted(self) -> bool:
        return any(line.drifted for line in self.measures)


def baseline_of(name: str, at: float, rows: Sequence[RunRow]) -> RunBaseline:
    """Makes a baseline; raises Conflict for a run that did not succeed."""
    for row in rows:
        if row.state is not RunState.SUCCEEDED:
            raise Conflict(
                f"run {row.id} ({row.name}) is {row.state.replace('_', ' ')}",
                hint="a baseline is of runs that succeeded",
            )
    unique = {row.id: row for row in rows}.values()
    runs = (BaselineRun(r.id, r.name, r.began, devices_text(r), values_of(r)) for r in unique)
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
    has = sorted({text for row in rows if (text := devices_text(row))})
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
