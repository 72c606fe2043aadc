"""Each device's recent readings in buckets of equal length: what the graphs are drawn from."""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import takewhile

from msgspec import Struct

from andon.model.device import DeviceStatus, Snapshot

METRICS = ("utilization_percent", "memory_used_bytes", "temperature_celsius", "power_watts")
"""The readings that have a graph."""
MOST_POINTS = 1200  # readings of one device and metric; older ones are thinned out
HELD_INTERVALS = 3.0  # a bucket without a reading shows the last one for this many intervals


class Point(Struct, frozen=True):
    """A reading, or the mean of a period in the past; `seconds` is the length of the period."""

    at: float
    value: float | None
    seconds: float = 1.0


class Histories:
    """The recent readings of every device: its past from elsewhere, then each new snapshot."""

    def __init__(self) -> None:
        self._points: dict[tuple[str, str], deque[Point]] = {}
        self._past: dict[tuple[str, str], tuple[Point, ...]] = {}
        self._memory: dict[tuple[int, float | None], deque[Point]] = {}
        self._drawn: dict[tuple[str, str, int], tuple[float, int, list[float | None]]] = {}
        self._last: float | None = None
        self._interval = 1.0

    def add(self, snapshot: Snapshot) -> None:
        """Adds a snapshot; an earlier one (a replay stepped back) drops everything after it."""
        if self._last is not None and snapshot.at <= self._last:
            if snapshot.at == self._last:
                return
            self._forget(snapshot.at)
        elif self._last is not None:
            self._interval = min(60.0, max(0.05, snapshot.at - self._last))
        self._last = snapshot.at
        for status in snapshot.devices:
            self._add_device(status, snapshot.at)
        self._add_processes(snapshot)

    def add_past(self, uuid: str, metric: str, points: Iterable[Point]) -> None:
        """Adds readings from before the first snapshot, from a server or the history on disk."""
        found = tuple(sorted(points, key=lambda point: point.at))
        if found or (uuid, metric) not in self._past:
            self._past[uuid, metric] = found
            self._drawn.clear()

    def forget_past(self) -> None:
        """Drops the past, so that it is read again for another span."""
        self._past.clear()
        self._drawn.clear()

    def values(
        self, uuid: str, metric: str, until: float, span_seconds: float, count: int
    ) -> list[float | None]:
        """Returns the mean of each of `count` equal periods up to `until`; None if unread."""
        if count < 1:
            return []
        key, last = (uuid, metric), math.floor(until / (span_seconds / count))
        drawn = self._drawn.get((*key, count))
        if drawn is None or drawn[:2] != (span_seconds, last):
            found = buckets(self._known(key), until, span_seconds, count, self._interval)
            self._drawn[*key, count] = (span_seconds, last, found)
            return found
        # Only the newest stretch changes until the next one begins.
        start = last * (span_seconds / count)
        newest = [p.value for p in takewhile(lambda p: p.at >= start, reversed(self._own(key)))]
        known = [value for value in newest if value is not None]
        if known:
            drawn[2][-1] = sum(known) / len(known)
        elif newest:
            drawn[2][-1] = None
        return drawn[2]

    def _own(self, key: tuple[str, str]) -> deque[Point]:
        return self._points.get(key) or deque()

    def _known(self, key: tuple[str, str]) -> list[Point]:
        own = self._own(key)
        first = own[0].at if own else math.inf
        return [*(point for point in self._past.get(key, ()) if point.at < first), *own]

    def process_memory(
        self, pid: int, started: float | None, until: float, span_seconds: float, count: int
    ) -> list[float | None]:
        """Returns the same means of one process's device memory, as far as top has recorded it."""
        points = self._memory.get((pid, started), ())
        return buckets(list(points), until, span_seconds, count, self._interval)

    def _add_device(self, status: DeviceStatus, at: float) -> None:
        sample = status.sample if status.answered else None
        for metric in METRICS:
            value = None if sample is None else getattr(sample, metric)
            points = self._points.setdefault((status.device.uuid, metric), deque())
            points.append(Point(at, value, self._interval))
            thin(points)

    def _add_processes(self, snapshot: Snapshot) -> None:
        sums: dict[tuple[int, float | None], float] = {}
        for status in snapshot.devices:
            for process in status.processes:
                if process.memory_bytes is not None:
                    key = (process.pid, process.started)
                    sums[key] = sums.get(key, 0.0) + process.memory_bytes
        for key, value in sums.items():
            points = self._memory.setdefault(key, deque())
            points.append(Point(snapshot.at, value, self._interval))
            thin(points)
        for gone in self._memory.keys() - sums.keys():
            if snapshot.at - self._memory[gone][-1].at > MOST_POINTS * self._interval:
                del self._memory[gone]

    def _forget(self, since: float) -> None:
        self._drawn.clear()
        for points in (*self._points.values(), *self._memory.values()):
            while points and points[-1].at >= since:
                points.pop()
        self._memory = {key: points for key, points in self._memory.items() if points}


def thin(points: deque[Point]) -> None:
    """Merges pairs of points in the older half if there are too many, so that a day fits."""
    if len(points) <= MOST_POINTS:
        return
    old = [points.popleft() for _ in range(MOST_POINTS // 2)]
    for one, two in zip(old[-2::-2], old[-1::-2], strict=True):
        known = [value for value in (one.value, two.value) if value is not None]
        mean = sum(known) / len(known) if known else None
        points.appendleft(Point(two.at, mean, one.seconds + two.seconds))


def buckets(
    points: Sequence[Point], until: float, span_seconds: float, count: int, interval: float
) -> list[float | None]:
    """Returns the mean of each period. Periods begin at multiples of their length, so that a graph
    moves by whole values; one without a reading repeats the last value for a while."""
    if count < 1:
        return []
    step = span_seconds / count
    last = math.floor(until / step)
    first = last - count + 1
    sums, counts = [0.0] * count, [0] * count
    gaps = [False] * count
    stretch = [interval] * count
    for point in points:
        place = math.floor(point.at / step) - first
        if not 0 <= place < count:
            continue
        stretch[place] = max(stretch[place], point.seconds)
        if point.value is None:
            gaps[place] = True
        else:
            sums[place] += point.value
            counts[place] += 1
    return _held(sums, counts, gaps, stretch, step)


def _held(
    sums: Sequence[float],
    counts: Sequence[int],
    gaps: Sequence[bool],
    stretch: Sequence[float],
    step: float,
) -> list[float | None]:
    out: list[float | None] = []
    held, left = None, 0
    for total, many, gap, seconds in zip(sums, counts, gaps, stretch, strict=True):
        if many:
            held, left = total / many, math.ceil(HELD_INTERVALS * seconds / step)
            out.append(held)
        elif gap or left <= 0:
            held, left = None, 0
            out.append(None)
        else:
            left -= 1
            out.append(held)
    return out
