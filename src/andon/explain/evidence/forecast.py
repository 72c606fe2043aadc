"""Detects steady rises: how fast, how certain, and when a limit is reached.

A trend is reported only if the data supports one. Noise, a step, a program start, memory that is
taken and freed again, and warming towards an equilibrium are not trends.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

from msgspec import Struct

Point = tuple[float, float]
"""A monotonic time and a value."""

BLOCKS = 24  # slopes are computed between all pairs, so points are reduced to block medians
WIDEST_RATIO = 2.0  # a wider ratio of latest to earliest arrival is not a forecast


class TrendCriteria(Struct, frozen=True):
    """What a rise must satisfy to count as a trend."""

    least_seconds: float
    least_points: int
    parts: int  # the time is split into this many, and each must contribute its share of the rise
    least_share: float  # of an even share
    most_share: float
    drop_share: float  # of the rise: memory that is freed again is not a trend
    deviations: float  # width of the slope's bounds; the lower one must be a rise


FOR_EXPLANATIONS = TrendCriteria(60.0, 6, 4, 0.3, float("inf"), 0.1, 1.0)
"""For explanations, which state their confidence."""
FOR_ALERTS = TrendCriteria(600.0, 9, 6, 0.5, 1.6, 0.15, 2.6)
"""For alerts, which wake people."""


class Trend(Struct, frozen=True):
    """A steady rise: its slope per second, and the bounds of that slope."""

    slope: float
    low: float
    high: float
    rise: float
    seconds: float


class Arrival(NamedTuple):
    """When a limit is reached if the trend continues: best estimate, earliest and latest."""

    seconds: float
    earliest_seconds: float
    latest_seconds: float


def trend(
    points: Sequence[Point], least_rise: float, criteria: TrendCriteria = FOR_ALERTS
) -> Trend | None:
    """Returns the trend in the points (oldest first); None if there is none."""
    if len(points) < criteria.least_points:
        return None
    seconds = points[-1][0] - points[0][0]
    rise = points[-1][1] - points[0][1]
    if seconds < criteria.least_seconds or rise < least_rise or rise <= 0:
        return None
    if not _never_drops(points, criteria.drop_share * rise) or not _is_even(points, criteria):
        return None
    slope, low, high = _slopes(_block_medians(points), criteria.deviations)
    return Trend(slope, low, high, rise, seconds) if low > 0 else None


def arrival(found: Trend, distance: float) -> Arrival | None:
    """Returns when a limit at this distance is reached; None if the estimate is too uncertain."""
    distance = max(0.0, distance)
    if found.high > WIDEST_RATIO * found.low:
        return None
    return Arrival(distance / found.slope, distance / found.high, distance / found.low)


def _never_drops(points: Sequence[Point], most: float) -> bool:
    """Whether the value never drops by more than this."""
    highest = points[0][1]
    for _, value in points:
        if value > highest:
            highest = value
        elif highest - value > most:
            return False
    return True


def _is_even(points: Sequence[Point], criteria: TrendCriteria) -> bool:
    """Whether each part of the time contributes its share; steps and flattening curves fail."""
    levels = [median(part) for part in _cut(points, criteria.parts) if part]
    if len(levels) < criteria.parts:
        return False
    share = (levels[-1] - levels[0]) / (criteria.parts - 1)
    steps = [later - earlier for earlier, later in pairwise(levels)]
    return share > 0 and all(
        criteria.least_share * share <= step <= criteria.most_share * share for step in steps
    )


def _cut(points: Sequence[Point], parts: int) -> list[list[float]]:
    begin = points[0][0]
    length = (points[-1][0] - begin) / parts
    out: list[list[float]] = [[] for _ in range(parts)]
    for at, value in points:
        out[min(parts - 1, int((at - begin) / length))].append(value)
    return out


def _block_medians(points: Sequence[Point]) -> Sequence[Point]:
    """Returns at most `BLOCKS` points, each the median of its block, so that outliers do not
    count."""
    if len(points) <= BLOCKS:
        return points
    out: list[Point] = []
    size = len(points) / BLOCKS
    for number in range(BLOCKS):
        block = points[int(number * size) : int((number + 1) * size)]
        out.append((median(at for at, _ in block), median(value for _, value in block)))
    return out


def _slopes(points: Sequence[Point], deviations: float) -> tuple[float, float, float]:
    """Returns the median slope of all pairs (Theil-Sen estimator), and its bounds by rank."""
    found = sorted(
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for place, earlier in enumerate(points)
        for later in points[place + 1 :]
        if later[0] > earlier[0]
    )
    count, pairs = len(points), len(found)
    spread = deviations * sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(0, int((pairs - spread) / 2))
    high = min(pairs - 1, int((pairs + spread) / 2) + 1)
    return median(found), found[low], found[high]


def median(values: Iterable[float]) -> float:
    """Returns the median as `statistics` does, whose import costs more than this whole module."""
    found = sorted(values)
    middle = len(found) // 2
    return found[middle] if len(found) % 2 else (found[middle - 1] + found[middle]) / 2
