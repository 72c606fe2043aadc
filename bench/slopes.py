"""Whether a figure grows over time: a robust line through its samples, beside their noise."""

import statistics
from collections.abc import Sequence

from msgspec import Struct

DEVIATION = 1.4826  # of normal noise, in medians of its absolute values
MOST_NOISE = 2.0  # deviations that a line may rise by chance

Point = tuple[float, float]


class Trend(Struct, frozen=True):
    """A line through samples, by Theil and Sen: a third of them may be anything."""

    begin: float
    """The line's value at the first sample."""
    slope: float
    span: float
    noise: float
    """The deviation of samples from the line."""

    @property
    def growth(self) -> float:
        return self.slope * self.span

    def grows(self, floor: float) -> bool:
        """Whether it rose by more than noise explains; what is below the floor is nobody's leak."""
        return self.growth > floor + MOST_NOISE * self.noise


def trend(points: Sequence[Point]) -> Trend | None:
    """Returns None for fewer than three moments, which have a line but no noise."""
    if len({at for at, _ in points}) < 3:
        return None
    slope = statistics.median(
        (later[1] - one[1]) / (later[0] - one[0])
        for place, one in enumerate(points)
        for later in points[place + 1 :]
        if later[0] != one[0]
    )
    first = min(at for at, _ in points)
    begin = statistics.median(value - slope * (at - first) for at, value in points)
    noise = statistics.median(abs(value - begin - slope * (at - first)) for at, value in points)
    return Trend(begin, slope, max(at for at, _ in points) - first, DEVIATION * noise)


def settled(points: Sequence[Point], share: float) -> list[Point]:
    """Returns what comes after this share of the time, in which caches fill."""
    if not points:
        return []
    first, last = points[0][0], points[-1][0]
    return [point for point in points if point[0] >= first + share * (last - first)]
