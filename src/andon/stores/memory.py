"""History in memory: for tests, and where nothing may be written."""

import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from andon.core.history.codec import point
from andon.core.history.intervals import UsageInterval, joined
from andon.core.history.series import Bucket, Key, NodeReadings, buckets, scale_of
from andon.core.history.tiers import Maintenance, Retention
from andon.model.device import Device

MOST_BYTES = 64_000_000  # for all series; hours of eight devices
POINT_BYTES = 16
DROP_SHARE = 0.1  # dropped when full: rarely, and not one point at a time


class Points:
    """The points of one series in time order, two machine words each."""

    __slots__ = ("_times", "_values")

    def __init__(self) -> None:
        self._times, self._values = array("q"), array("q")

    def __len__(self) -> int:
        return len(self._times)

    def put(self, at_ms: int, value: int) -> None:
        if not self._times or self._times[-1] < at_ms:
            self._times.append(at_ms)
            self._values.append(value)
            return
        # Rewritten or late: rare enough to sort everything.
        points = dict(zip(self._times, self._values, strict=True)) | {at_ms: value}
        kept = sorted(points.items())
        self._times = array("q", [at for at, _ in kept])
        self._values = array("q", [one for _, one in kept])

    def between(self, begin_ms: int, end_ms: int) -> Iterator[tuple[int, int]]:
        first, end = bisect_left(self._times, begin_ms), bisect_left(self._times, end_ms)
        return zip(self._times[first:end], self._values[first:end], strict=True)

    def forget(self, before_ms: int) -> None:
        self.drop(bisect_left(self._times, before_ms))

    def drop(self, count: int) -> None:
        """Drop the `count` oldest."""
        del self._times[:count]
        del self._values[:count]


class MemoryStore:
    """Keeps every point until it is too old or memory is full."""

    def __init__(self, retention: Retention | None = None, most_bytes: int = MOST_BYTES) -> None:
        self._retention, self._most_bytes = retention or Retention(), most_bytes
        self._lock = threading.Lock()
        self._series: dict[Key, Points] = {}
        self._uses: dict[tuple[object, ...], UsageInterval] = {}
        self._devices: dict[str, Device] = {}

    def write(
        self,
        ticks: Sequence[NodeReadings],
        uses: Sequence[UsageInterval] = (),
        devices: Sequence[Device] = (),
    ) -> None:
        with self._lock:
            self._devices |= {device.uuid: device for device in devices}
            self._uses |= {(*use.identity, use.first): use for use in uses}
            for tick in ticks:
                for device, metrics, values in tick.readings:
                    for metric, value in zip(metrics, values, strict=True):
                        key = device, metric
                        points = self._series.get(key) or self._series.setdefault(key, Points())
                        points.put(tick.at_ms, value)
            self._keep_within()

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        begin, end = round(since * 1000), round(until * 1000)
        with self._lock:
            found = self._series.get((device, metric), Points()).between(begin, end)
        rows = (point(at, value) for at, value in found)
        return buckets(rows, since, until, points, scale_of(metric))

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        with self._lock:
            found = [use for use in self._uses.values() if device in (None, use.device)]
        return [use for use in joined(found) if use.last >= since and use.first < until]

    def maintain(self, at: float) -> Maintenance:
        """Drop what is too old; there is nothing to pack."""
        oldest = round((at - self._retention.raw_seconds) * 1000)
        forgotten = at - self._retention.hour_seconds
        with self._lock:
            for points in self._series.values():
                points.forget(oldest)
            old = [key for key, use in self._uses.items() if use.last < forgotten]
            for key in old:
                del self._uses[key]
        return Maintenance(deleted_uses=len(old))

    def size_bytes(self) -> int:
        with self._lock:
            return self._bytes()

    def close(self) -> None:
        """Nothing to close."""

    def devices(self) -> Sequence[Device]:
        return sorted(self._devices.values(), key=lambda device: (device.index, device.uuid))

    def metrics(self, device: str) -> Sequence[str]:
        return [metric for owner, metric in self._series if owner == device]

    def _bytes(self) -> int:
        return POINT_BYTES * sum(map(len, self._series.values()))

    def _keep_within(self) -> None:
        if self._bytes() > self._most_bytes:
            for points in self._series.values():
                points.drop(round(DROP_SHARE * len(points)) + 1)
