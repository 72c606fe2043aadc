"""What runs are measured by, and a measure over several runs: median, range, and when two sides
really differ."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from andon.errors import Invalid
from andon.explain.evidence.forecast import median
from andon.model.run.record import RunRow

PERCENT = 100.0
LOGGED = "log."  # in front of the names of a program's own values
DURATION, ITEMS, STEPS = "duration_seconds", "items_per_second", "steps_per_second"


class RunMeasure(NamedTuple):
    """A number that runs are compared by; differences of a percentage are in points."""

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


def measure_named(word: str, known: Sequence[str], alias: str = "") -> str:
    """Returns the measure that a user names, a value of the program's own without its prefix."""
    for name in (word, LOGGED + word, alias):
        if name in known:
            return name
    names = ", ".join(name.removeprefix(LOGGED) for name in known)
    raise Invalid(
        f"no run has {word[:80]!r}", hint=f"compare by one of: {names or 'nothing known'}"
    )


def values_of(row: RunRow) -> dict[str, float]:
    """Returns the known numbers of a run, by the names of `MEASURES`."""
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


HIGHER_LOGGED = ("_per_second", "per_joule", "throughput", "accuracy", "reward", "score")
"""Values of which more is better; for others less is."""


def bests_of(row: RunRow, name: str, higher: bool | None = None) -> dict[str, float]:
    """Returns the best of a logged value, and the step at which it was, as two more measures;
    without `higher` its name says whether more is better."""
    found = row.extremes.get(name.removeprefix(LOGGED))
    if found is None:
        return {}
    best = found[name.endswith(HIGHER_LOGGED) if higher is None else higher]
    known = {f"{name} best": best.value, f"{name} best at step": best.step}
    return {measure: value for measure, value in known.items() if value is not None}


# A number over several runs.

LEAST_RUNS = 3
"""Runs on each side; with fewer the numbers are not compared."""


class Order(StrEnum):
    """How one side's values compare with the other's."""

    LOWER = "lower"
    HIGHER = "higher"
    SAME = "same"  # the ranges meet: no difference is shown
    UNKNOWN = "unknown"  # too few runs to tell


class SpreadOfRuns(Struct, frozen=True):
    """A number over several runs."""

    count: int
    median: float
    low: float
    high: float


def spread_of(values: Iterable[float | None]) -> SpreadOfRuns | None:
    """Returns the spread of the known values; None if none is known."""
    known = sorted(value for value in values if value is not None)
    return SpreadOfRuns(len(known), median(known), known[0], known[-1]) if known else None


def order_of(one: SpreadOfRuns | None, other: SpreadOfRuns | None) -> Order:
    """Returns how the first compares with the second; overlapping ranges show no difference."""
    if one is None or other is None or min(one.count, other.count) < LEAST_RUNS:
        return Order.UNKNOWN
    if one.high < other.low:
        return Order.LOWER
    return Order.HIGHER if one.low > other.high else Order.SAME


def change_of(one: float, other: float) -> float | None:
    """Returns how much larger the first is, as a share of the second; None if the second is 0."""
    return (one - other) / abs(other) if other else None
