"""The course of a run in bounded memory: extremes and means, points, idle spells, a plateau."""

import math
from collections import defaultdict

from msgspec import Struct, field

from andon.model.run.record import SERIES_POINTS, RunSeries
from andon.model.run.use import IdleSpells, MemoryPlateau, RunSpread
from andon.model.utilisation import ZERO_READING

# Extremes, mean and 95th percentile of values that stand for different lengths of time.

DIGITS = 3  # of the percentile; extremes and mean are exact
LEAST_WEIGHT = 1e-3
"""The weight of a reading that stands for no time, such as the only one."""


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
        """Returns the smallest value that is not exceeded for this share of the time."""
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


# A run of any length in a bounded number of points: each is the mean of its span.

NARROWEST_SECONDS = 0.25
Key = tuple[str, str]  # uuid and reading


class RunCurves(Struct):
    """A bounded number of spans; too many are merged in pairs: a long run is coarser."""

    began: float
    points: int = SERIES_POINTS
    width: float = NARROWEST_SECONDS
    counts: list[int] = field(default_factory=list)  # of samples, by span
    sums: dict[Key, list[tuple[float, int]]] = field(default_factory=dict)
    _open: int | None = None

    def at(self, moment: float) -> None:
        """Begins the readings of this time."""
        self.widen(moment)
        place = max(0, int((moment - self.began) / self.width))
        self.counts += [0] * (place + 1 - len(self.counts))
        self.counts[place] += 1
        self._open = place

    def widen(self, moment: float) -> None:
        """Makes the spans so wide that they reach this time."""
        while int((moment - self.began) / self.width) >= self.points:
            self._halve()

    def add(self, uuid: str, name: str, value: float | None) -> None:
        if value is None or self._open is None:
            return
        spans = self.sums.setdefault((uuid, name), [])
        spans += [(0.0, 0)] * (self._open + 1 - len(spans))
        total, count = spans[self._open]
        spans[self._open] = total + value, count + 1

    def _halve(self) -> None:
        self.width *= 2
        self.counts = [sum(self.counts[i : i + 2]) for i in range(0, len(self.counts), 2)]
        for key, spans in self.sums.items():
            self.sums[key] = [_joined(spans[i : i + 2]) for i in range(0, len(spans), 2)]

    def result(self) -> RunSeries | None:
        """Returns the series, without spans that have no sample; None without any sample."""
        places = [place for place, count in enumerate(self.counts) if count]
        devices: dict[str, dict[str, tuple[float | None, ...]]] = {}
        for (uuid, name), spans in self.sums.items():
            devices.setdefault(uuid, {})[name] = tuple(_mean(spans, place) for place in places)
        if not devices:
            return None
        return RunSeries(tuple(round(place * self.width, 3) for place in places), devices)


def _joined(spans: list[tuple[float, int]]) -> tuple[float, int]:
    return sum(total for total, _ in spans), sum(count for _, count in spans)


def _mean(spans: list[tuple[float, int]], place: int) -> float | None:
    total, count = spans[place] if place < len(spans) else (0.0, 0)
    if not count:
        return None
    mean = total / count
    return int(mean) if abs(mean) >= 1e5 else round(mean, 2)


# How long nothing ran on a device, and in how many spells.

DRIVER, SAMPLES = "driver", "samples"
STEPS = {DRIVER: (1.0, 0.2), SAMPLES: (30.0, 1.0)}
"""By source: a longer gap between two readings is unknown, and after one a reading stands for this
many seconds."""


class IdleTime(Struct):
    """Takes readings of utilisation in order; each covers the time since the last one."""

    source: str
    idle_seconds: float = 0.0
    known_seconds: float = 0.0
    count: int = 0
    longest: float = 0.0
    spell: float = 0.0  # the one that goes on
    at: float | None = None

    def add(self, at: float, percent: float | None, since: float) -> None:
        """Adds a reading; `since` is the beginning of the run, and older readings do not count."""
        if at <= (since if self.at is None else self.at):
            return
        seconds = at - (since if self.at is None else self.at)
        longest, usual = STEPS[self.source]
        if seconds > longest:
            self.spell, seconds = 0.0, usual
        self.at = at
        if percent is None:
            self.spell = 0.0
            return
        self.known_seconds += seconds
        if percent > ZERO_READING:
            self.spell = 0.0
            return
        self.count += self.spell == 0.0
        self.spell += seconds
        self.idle_seconds += seconds
        self.longest = max(self.longest, self.spell)

    @property
    def share(self) -> float | None:
        return self.idle_seconds / self.known_seconds if self.known_seconds else None

    def spells(self, most_seconds: float) -> IdleSpells | None:
        """Returns the spells; None if utilisation was never known. No spell is longer than the
        run: the last reading may be from just after it, and one after a gap covers a usual
        interval."""
        if not self.known_seconds:
            return None
        mean = self.idle_seconds / self.count if self.count else 0.0
        return IdleSpells(
            count=self.count,
            mean_seconds=round(min(mean, most_seconds), 3),
            longest_seconds=round(min(self.longest, most_seconds), 3),
            source=self.source,
        )


# The memory that a device held for most of a run.

PLATEAU_STEPS = 50  # a level is two per cent of the device's memory
LEAST_SHARE = 0.3  # a level that was held for less is no plateau


class _Level(Struct):
    since: float
    seconds: float = 0.0
    weighted: float = 0.0


class MemoryLevels(Struct):
    """The time spent at each level of memory; nothing if the total memory is unknown."""

    total_bytes: int | None
    began: float
    seconds: float = 0.0
    levels: dict[int, _Level] = field(default_factory=dict)

    def add(self, at: float, used_bytes: int | None, seconds: float) -> None:
        if used_bytes is None or not self.total_bytes:
            return
        place = round(PLATEAU_STEPS * used_bytes / self.total_bytes)
        level = self.levels.setdefault(place, _Level(max(0.0, at - self.began)))
        level.seconds += seconds
        level.weighted += seconds * used_bytes
        self.seconds += seconds

    def result(self) -> MemoryPlateau | None:
        held = max(self.levels.values(), key=lambda level: level.seconds, default=None)
        if held is None or not held.seconds or held.seconds < LEAST_SHARE * self.seconds:
            return None
        return MemoryPlateau(
            bytes=round(held.weighted / held.seconds),
            share=round(held.seconds / self.seconds, 4),
            since_seconds=round(held.since, 3),
        )
