"""Folds the values that a program logs into few buckets: for each line of its record, and for the
curves of the whole run. The same bucket serves both, in memory that does not grow with the run."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from andon.model.run.record import (
    LoggedSpread,
    RunCurve,
    RunEvent,
    RunExtreme,
    RunLine,
    RunLogged,
)

MOST_NAMES = 1000
MOST_POINTS, WHOLE_CURVES = 500, 40
"""So many buckets has a curve of a run that logs up to so many names; with more of them, fewer."""
WRITE_SECONDS = 1.0
MOST_WRITTEN, WRITTEN_VALUES = 20, 500
"""Buckets of one name in one write, and of all names together, but one of each name at least."""
REFUSED, NOT_FINITE = "names_refused", "not_finite"
"""The events for names beyond `MOST_NAMES`, and for values that are no numbers, once for each."""
MOST_REFUSALS = 10  # refused names


class ValueBucket(Struct):
    """One name's values over a while; `at` and `step` are those of the last one."""

    at: float
    step: float | None
    low: float = math.inf
    mean: float = 0.0
    high: float = -math.inf
    last: float | None = None  # None: none of them is finite
    count: int = 0  # of finite ones
    gaps: int = 0  # values that are no numbers
    restarts: int = 0  # how often the step went back, before or within it

    def join(self, later: "ValueBucket") -> None:
        count = self.count + later.count
        if later.count:
            share = later.count / count
            self.mean = self.mean * (1 - share) + later.mean * share  # a sum might overflow
            self.low, self.high = min(self.low, later.low), max(self.high, later.high)
            self.mean = min(max(self.mean, self.low), self.high)
            self.last = later.last
        self.at, self.count = later.at, count
        self.step = self.step if later.step is None else later.step
        self.gaps += later.gaps
        self.restarts += later.restarts


class Buckets(Struct):
    """A bounded number of buckets of about equally many additions; too many are joined in pairs."""

    found: list[ValueBucket] = field(default_factory=list)
    width: int = 1  # how many additions each bucket has, but the last
    filled: int = 0  # how many the last one has

    def add(self, bucket: ValueBucket, most: int) -> None:
        if self.found and self.filled < self.width:
            self.found[-1].join(bucket)
            self.filled += 1
        else:
            self.found.append(bucket)
            self.filled = 1
            self.narrow(most)

    def narrow(self, most: int) -> None:
        while len(self.found) > most:
            is_pair = len(self.found) % 2 == 0
            for first, second in zip(self.found[::2], self.found[1::2], strict=False):
                first.join(second)
            self.found = self.found[::2]
            self.filled += self.width * is_pair
            self.width *= 2


# What a record gets of logged values.


class LoggedWindow(Struct):
    """Takes values as a program logs them; gives the record's lines, at most once a second."""

    last_steps: dict[str, float | None] = field(default_factory=dict)  # of every known name
    _waiting: dict[str, Buckets] = field(default_factory=dict)
    _written: float = -math.inf
    _refused: set[str] = field(default_factory=set)
    _reported: set[str] = field(default_factory=set)

    def add(self, line: RunLogged) -> RunEvent | None:
        """Takes values; returns an event if names are refused."""
        most = max(1, min(MOST_WRITTEN, WRITTEN_VALUES // max(1, len(self._waiting))))
        fresh = []
        for name in {**line.values, **line.gaps}:
            if self._knows(name, line.step):
                bucket = self._bucket(name, line)
                self._waiting.setdefault(name, Buckets()).add(bucket, most)
            elif name not in self._refused:
                fresh.append(name)
        fresh = fresh[: MOST_REFUSALS - len(self._refused)]
        self._refused.update(fresh)
        data = {"names": ", ".join(fresh), "most": MOST_NAMES}
        return RunEvent(line.at, REFUSED, data) if fresh else None

    def is_due(self, now: float) -> bool:
        """Whether the values are to be written now, by a clock that is never set back."""
        return bool(self._waiting) and now - self._written >= WRITE_SECONDS

    def take(self, now: float) -> list[RunLogged]:
        """Returns the lines of all values that wait."""
        lines: dict[tuple[float, float | None, int, int], dict[str, ValueBucket]] = {}
        for name, waiting in self._waiting.items():
            again = Counter[float]()  # of the same time: their order is kept
            for one in waiting.found:
                place = (one.at, one.step, one.restarts, again[one.at])
                lines.setdefault(place, {})[name] = one
                again[one.at] += 1
        self._waiting, self._written = {}, now
        in_order = sorted(lines.items(), key=lambda line: (line[0][0], line[0][3]))
        return [_line(*place[:3], found) for place, found in in_order]

    def fresh(self, event: RunEvent) -> RunEvent | None:
        """Returns the event of values that are no numbers, without names that had one before."""
        names = event.data.keys() - self._reported - {"step"}
        self._reported.update(names & self.last_steps.keys())
        data = {name: text for name, text in event.data.items() if name in names or name == "step"}
        return replace(event, data=data) if names else None

    def _knows(self, name: str, step: float | None) -> bool:
        if name not in self.last_steps and len(self.last_steps) < MOST_NAMES:
            self.last_steps[name] = step
        return name in self.last_steps

    def _bucket(self, name: str, line: RunLogged) -> ValueBucket:
        before, found = self.last_steps[name], bucket_of(line, name)
        if line.step is not None:
            self.last_steps[name] = line.step
            found.restarts = max(found.restarts, int(before is not None and line.step < before))
        return found


def _line(
    at: float, step: float | None, restarts: int, found: Mapping[str, ValueBucket]
) -> RunLogged:
    return RunLogged(
        at,
        {name: one.last for name, one in found.items() if one.last is not None},
        step,
        {n: LoggedSpread(b.low, b.mean, b.high, b.count) for n, b in found.items() if b.count > 1},
        {name: one.gaps for name, one in found.items() if one.gaps},
        restarts,
    )


# The curves of a run, from these lines.


class _Curve(Struct):
    buckets: Buckets = field(default_factory=Buckets)
    last_step: float | None = None
    lowest: RunExtreme | None = None
    highest: RunExtreme | None = None
    restarts: int = 0
    gaps: int = 0

    def add(self, bucket: ValueBucket, began: float, most: int) -> None:
        step, after = bucket.step, round(max(0.0, bucket.at - began), 3)
        if step is not None:
            back = self.last_step is not None and step < self.last_step
            bucket.restarts, self.last_step = max(bucket.restarts, int(back)), step
        self.restarts += bucket.restarts
        self.gaps += bucket.gaps
        if bucket.count and (self.lowest is None or bucket.low < self.lowest.value):
            self.lowest = RunExtreme(bucket.low, after, step)
        if bucket.count and (self.highest is None or bucket.high > self.highest.value):
            self.highest = RunExtreme(bucket.high, after, step)
        self.buckets.add(bucket, most)

    def result(self, began: float) -> RunCurve:
        found = self.buckets.found
        known = [one for one in found if one.count]
        is_spread = any(one.low != one.high for one in known)
        columns: dict[str, Any] = {
            "last": tuple(_short(one.last) for one in found),
            "steps": tuple(b.step for b in found) if any(b.step is not None for b in found) else (),
            "gaps": tuple(one.gaps for one in found) if self.gaps else (),
        }
        for name in ("low", "mean", "high") if is_spread else ():
            columns[name] = tuple(_short(getattr(b, name)) if b.count else None for b in found)
        return RunCurve(
            tuple(round(max(0.0, one.at - began), 3) for one in found),
            **columns,
            restarts=tuple(place for place, one in enumerate(found) if one.restarts),
            lowest=self.lowest,
            highest=self.highest,
        )


def _short(value: float | None) -> float | None:
    """Returns a number in as many digits as a chart or a float32 has."""
    return None if value is None else float(f"{value:.7g}")


class LoggedCurves(Struct):
    """The curves of all names that a run logs, of the first `MOST_NAMES`."""

    began: float
    curves: dict[str, _Curve] = field(default_factory=dict)

    def add(self, line: RunLogged) -> None:
        for name in {**line.values, **line.gaps}:
            curve = self.curves.get(name)
            if curve is None:
                if len(self.curves) >= MOST_NAMES:
                    continue
                curve = self.curves[name] = _Curve()
                self._narrow()
            curve.add(bucket_of(line, name), self.began, self._most)

    def add_all(self, lines: Iterable[RunLogged]) -> None:
        for line in lines:
            self.add(line)

    def result(self) -> dict[str, RunCurve]:
        return {name: curve.result(self.began) for name, curve in self.curves.items()}

    def last_values(self) -> dict[str, float]:
        """Returns the last finite value of each name that ever had one."""
        lasts = {
            name: next((b.last for b in reversed(one.buckets.found) if b.last is not None), None)
            for name, one in self.curves.items()
        }
        return {name: last for name, last in lasts.items() if last is not None}

    def last_steps(self) -> dict[str, float | None]:
        return {name: one.last_step for name, one in self.curves.items()}

    @property
    def _most(self) -> int:
        return MOST_POINTS >> ((len(self.curves) - 1) // WHOLE_CURVES).bit_length()

    def _narrow(self) -> None:
        """Makes all curves coarser where one more name has made it necessary."""
        most = self._most
        for curve in self.curves.values() if len(self.curves) % WHOLE_CURVES == 1 else ():
            curve.buckets.narrow(most)


def curves_of(began: float, lines: Iterable[RunLine]) -> dict[str, RunCurve]:
    """Returns the curves of these lines alone."""
    found = LoggedCurves(began)
    found.add_all(line for line in lines if isinstance(line, RunLogged))
    return found.result()


def bucket_of(line: RunLogged, name: str) -> ValueBucket:
    """Returns the values of one name that a line has."""
    value, gaps = line.values.get(name), line.gaps.get(name, 0)
    if value is None or not math.isfinite(value):
        gaps += value is not None
        return ValueBucket(line.at, line.step, gaps=gaps, restarts=line.restarts)
    spread = line.spreads.get(name) or LoggedSpread(value, value, value, 1)
    return ValueBucket(
        line.at, line.step, spread.low, spread.mean, spread.high, value, spread.count, gaps,
        line.restarts,
    )  # fmt: skip
