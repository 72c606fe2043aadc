"""History that ends with the process: for tests, and where nothing may be written."""

import threading
from collections import deque
from collections.abc import Sequence

from andon.core.series import Bucket, Key, Tick, buckets, scale_of
from andon.core.series_codec import point
from andon.core.series_tiers import Maintenance, Retention
from andon.core.series_uses import Use, joined
from andon.model.device import Device

MOST_POINTS = 20_000  # of one series; the oldest go first
POINT_BYTES = 90  # about what two numbers in a list take


class MemoryStore:
    """Keeps every point until it is too old or there are too many."""

    def __init__(self, retention: Retention | None = None) -> None:
        self._retention = retention or Retention()
        self._lock = threading.Lock()
        self._series: dict[Key, deque[tuple[int, int]]] = {}
        self._uses: dict[tuple[object, ...], Use] = {}
        self._devices: dict[str, Device] = {}

    def write(
        self, ticks: Sequence[Tick], uses: Sequence[Use] = (), devices: Sequence[Device] = ()
    ) -> None:
        with self._lock:
            self._devices |= {device.uuid: device for device in devices}
            self._uses |= {(*use.identity, use.first): use for use in uses}
            for tick in ticks:
                for device, metrics, values in tick.readings:
                    for metric, value in zip(metrics, values, strict=True):
                        self._put((device, metric), tick.at_ms, value)

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        with self._lock:
            known = list(self._series.get((device, metric), ()))
        begin, end = round(since * 1000), round(until * 1000)
        rows = (point(at, value) for at, value in known if begin <= at < end)
        return buckets(rows, since, until, points, scale_of(metric))

    def uses(self, device: str | None, since: float, until: float) -> Sequence[Use]:
        with self._lock:
            found = [use for use in self._uses.values() if device in (None, use.device)]
        return [use for use in joined(found) if use.last >= since and use.first < until]

    def maintain(self, at: float) -> Maintenance:
        """Let go of what is too old; there is nothing to pack."""
        oldest = round((at - self._retention.raw_seconds) * 1000)
        forgotten = at - self._retention.hour_seconds
        with self._lock:
            for series in self._series.values():
                while series and series[0][0] < oldest:
                    series.popleft()
            old = [key for key, use in self._uses.items() if use.last < forgotten]
            for key in old:
                del self._uses[key]
        return Maintenance(deleted_uses=len(old))

    def size_bytes(self) -> int:
        with self._lock:
            return POINT_BYTES * sum(map(len, self._series.values()))

    def close(self) -> None:
        """Nothing is held open; what was kept goes with the object."""

    def devices(self) -> Sequence[Device]:
        return sorted(self._devices.values(), key=lambda device: (device.index, device.uuid))

    def metrics(self, device: str) -> Sequence[str]:
        return [metric for owner, metric in self._series if owner == device]

    def _put(self, key: Key, at_ms: int, value: int) -> None:
        series = self._series.setdefault(key, deque(maxlen=MOST_POINTS))
        if not series or series[-1][0] < at_ms:
            series.append((at_ms, value))
            return
        # Written again, or late: rare enough to sort everything.
        points = dict(series) | {at_ms: value}
        series.clear()
        series.extend(sorted(points.items()))
