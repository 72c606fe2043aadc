"""Whether a value rises steadily, how fast, how sure that is, and when it reaches a bound.

A trend is told only where the data bears one. Noise, a step, a start, work that takes and frees
again, and a body that warms towards a balance are none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import median

Point = tuple[float, float]
"""A time that only moves forward, and a value."""

BLOCKS = 24  # slopes are taken between all pairs, so of few and sturdy points
WIDEST_RATIO = 2.0  # a span between the fastest and the slowest arrival that is wider says nothing


@dataclass(frozen=True, slots=True)
class TrendCriteria:
    """What a rise must show before it counts as a trend."""

    least_seconds: float
    least_points: int
    parts: int  # the time is cut into so many, and each must bring its share of the rise
    least_share: float  # of an even share
    most_share: float
    drop_share: float  # of the rise: work that frees again what it took is no trend
    deviations: float  # how wide the bounds of the slope are taken; the lower must be a rise


FOR_EXPLANATIONS = TrendCriteria(60.0, 6, 4, 0.3, float("inf"), 0.1, 1.0)
"""For an explanation beside the readings, which says how sure it is."""
FOR_ALERTS = TrendCriteria(600.0, 9, 6, 0.5, 1.6, 0.15, 2.6)
"""For an alert, which wakes people."""


@dataclass(frozen=True, slots=True)
class Trend:
    """A steady rise: its slope per second, and the bounds between which that surely lies."""

    slope: float
    low: float
    high: float
    rise: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Arrival:
    """When a bound is reached if the trend goes on: the best guess, the earliest, the latest."""

    seconds: float
    earliest_seconds: float
    latest_seconds: float


def trend(
    points: Sequence[Point], least_rise: float, demand: TrendCriteria = FOR_ALERTS
) -> Trend | None:
    """The rise that the points bear, oldest first; None where they bear none."""
    if len(points) < demand.least_points:
        return None
    seconds = points[-1][0] - points[0][0]
    rise = points[-1][1] - points[0][1]
    if seconds < demand.least_seconds or rise < least_rise or rise <= 0:
        return None
    if not _never_drops(points, demand.drop_share * rise) or not _is_even(points, demand):
        return None
    slope, low, high = _slopes(_block_medians(points), demand.deviations)
    return Trend(slope, low, high, rise, seconds) if low > 0 else None


def arrival(found: Trend, distance: float) -> Arrival | None:
    """When a bound at this distance is reached; None where that could be almost any time."""
    distance = max(0.0, distance)
    if found.high > WIDEST_RATIO * found.low:
        return None
    return Arrival(distance / found.slope, distance / found.high, distance / found.low)


def _never_drops(points: Sequence[Point], most: float) -> bool:
    """Whether it never gives back more than this of what it had."""
    highest = points[0][1]
    for _, value in points:
        if value > highest:
            highest = value
        elif highest - value > most:
            return False
    return True


def _is_even(points: Sequence[Point], demand: TrendCriteria) -> bool:
    """Whether each part of the time brings its share: a step and a levelling curve do not."""
    levels = [median(part) for part in _cut(points, demand.parts) if part]
    if len(levels) < demand.parts:
        return False
    share = (levels[-1] - levels[0]) / (demand.parts - 1)
    steps = [later - earlier for earlier, later in pairwise(levels)]
    return share > 0 and all(
        demand.least_share * share <= step <= demand.most_share * share for step in steps
    )


def _cut(points: Sequence[Point], parts: int) -> list[list[float]]:
    begin = points[0][0]
    length = (points[-1][0] - begin) / parts
    out: list[list[float]] = [[] for _ in range(parts)]
    for at, value in points:
        out[min(parts - 1, int((at - begin) / length))].append(value)
    return out


def _block_medians(points: Sequence[Point]) -> Sequence[Point]:
    """At most `BLOCKS` points, each the middle of its neighbours: a few odd ones do not count."""
    if len(points) <= BLOCKS:
        return points
    out: list[Point] = []
    size = len(points) / BLOCKS
    for number in range(BLOCKS):
        block = points[int(number * size) : int((number + 1) * size)]
        out.append((median(at for at, _ in block), median(value for _, value in block)))
    return out


def _slopes(points: Sequence[Point], deviations: float) -> tuple[float, float, float]:
    """The median of the slopes between all pairs (Theil and Sen), and its bounds by their ranks."""
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
