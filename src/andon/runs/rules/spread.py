"""A number over several runs: median, range, and when two sides really differ."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from andon.explain.evidence.forecast import median

LEAST_RUNS = 3
"""On each side; of fewer there is nothing to say beyond the numbers."""


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
    """How the first compares with the second: only ranges that do not overlap show a difference."""
    if one is None or other is None or min(one.count, other.count) < LEAST_RUNS:
        return Order.UNKNOWN
    if one.high < other.low:
        return Order.LOWER
    return Order.HIGHER if one.low > other.high else Order.SAME


def change_of(one: float, other: float) -> float | None:
    """Returns how much larger the first is, as a share of the second; None if the second is 0."""
    return (one - other) / abs(other) if other else None
