"""Extremes, mean and 95th percentile of values that stand for different lengths of time."""

import math
from collections import defaultdict

from msgspec import Struct, field

from andon.model.run.use import RunSpread

DIGITS = 3  # of the percentile; extremes and mean are exact
LEAST_WEIGHT = 1e-3
"""Of a reading that stands for no time, such as the only one."""


class TimedSpread(Struct):
    """A spread over time, in memory that does not grow with the run."""

    low: float | None = None
    high: float | None = None
    total: float = 0.0
    weight: float = 0.0
    weights: dict[float, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, value: float | None, seconds: float) -> None:
        if value is None or not math.isfinite(value):
            return
        weight = max(seconds, LEAST_WEIGHT)
        self.low = value if self.low is None or value < self.low else self.low
        self.high = value if self.high is None or value > self.high else self.high
        self.total += value * weight
        self.weight += weight
        self.weights[short(value)] += weight

    @property
    def mean(self) -> float | None:
        if self.low is None or self.high is None:
            return None
        # Rounding must not carry the mean of equal values past them.
        return min(max(self.total / self.weight, self.low), self.high)

    def result(self) -> RunSpread:
        """Returns the spread, rounded to the thousandth."""
        found = (self.low, self.high, self.mean, self.percentile(0.95))
        low, high, mean, p95 = (None if one is None else round(one, 3) for one in found)
        return RunSpread(min=low, max=high, mean=mean, p95=p95)

    def percentile(self, share: float) -> float | None:
        """The least value that is not exceeded for this share of the time."""
        if self.low is None or self.high is None:
            return None
        left = share * self.weight
        for value, weight in sorted(self.weights.items()):
            left -= weight
            if left <= 1e-9 * self.weight:
                return min(max(value, self.low), self.high)
        return self.high


def short(value: float) -> float:
    """Returns a number rounded to three digits."""
    if value == 0:
        return 0.0
    return round(value, DIGITS - 1 - math.floor(math.log10(abs(value))))
