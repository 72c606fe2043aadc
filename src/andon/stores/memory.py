"""History in memory: for tests, and where nothing may be written."""

import json
import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from andon.alerts.rules.outbox import Delivery, SavedAlerts
from andon.alerts.rules.past import KEPT_SECONDS, Query, is_kept, matches, trimmed
from andon.errors import Gone
from andon.history.rules.blocks import Block, packed, rolled_up, rows_between
from andon.history.rules.codec import SeriesRow, grouped
from andon.history.rules.intervals import UsageInterval, joined
from andon.history.rules.series import Bucket, Key, NodeReadings, buckets, scale_of
from andon.history.rules.tiers import (
    WINDOW_MS,
    DueRoll,
    Extent,
    Maintenance,
    StoreContents,
    StoredBlock,
    Tier,
    rolled_until,
    widened,
    window,
)
from andon.model.alert import Alert, Phase
from andon.model.device import Device
from andon.ports import AlertStore, RunIndex
from andon.settings.store_url import StoreUrl

MOST_BYTES = 64_000_000
POINT_BYTES = 16
BLOCK_BYTES = 64  # what a block takes beside its own bytes, about
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

    def between(self, begin_ms: int, end_ms: int) -> tuple[Sequence[int], Sequence[int]]:
        first, end = bisect_left(self._times, begin_ms), bisect_left(self._times, end_ms)
        return self._times[first:end], self._values[first:end]

    def windows(self) -> Iterator[int]:
        """The windows that have points, found without visiting each point."""
        place = 0
        while place < len(self._times):
            begin = window(Tier.RAW, self._times[place])
            yield begin
            place = bisect_left(self._times, begin + WINDOW_MS[Tier.RAW], place)

    def drop(self, begin_ms: int, end_ms: int) -> None:
        """Drop the points of a span."""
        first, end = bisect_left(self._times, begin_ms), bisect_left(self._times, end_ms)
        del self._times[first:end]
        del self._values[first:end]

    def drop_oldest(self, count: int) -> None:
        del self._times[:count]
        del self._values[:count]


class MemoryStore:
    """The same tiers as on disk, in dictionaries; each that is opened is one node's."""

    place = "memory"

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.RLock()
        self._heads: dict[Key, Points] = {}
        self._blocks: dict[tuple[Key, Tier], dict[int, bytes]] = {}
        self._block_bytes = 0
        self._extents: dict[Tier, Extent] = {}
        self._uses: dict[tuple[object, ...], UsageInterval] = {}
        self._devices: dict[str, Device] = {}

    @classmethod
    def open(cls, url: StoreUrl, node: str, readonly: bool = False) -> Self:
        if readonly:
            raise Gone(
                "the history is kept in memory only",
                hint="read it from its server: andon history --url HOST:PORT",
            )
        return cls()

    @classmethod
    def open_alerts(cls, url: StoreUrl, node: str) -> AlertStore:
        return MemoryAlertStore()

    @classmethod
    def open_runs(cls, url: StoreUrl, node: str) -> RunIndex:
        from andon.stores.memory_runs import MemoryRunIndex

        return MemoryRunIndex()

    @classmethod
    def files(cls, url: StoreUrl) -> Mapping[str, Path]:
        return {}

    # Reading and writing.

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
                        points = self._heads.get(key) or self._heads.setdefault(key, Points())
                        points.put(tick.at_ms, value)
            self._keep_within()

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        with self._lock:
            rows = list(self._rows((device, metric), since, until, points))
        return buckets(rows, since, until, points, scale_of(metric))

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        with self._lock:
            found = [use for use in self._uses.values() if device in (None, use.device)]
        return [use for use in joined(found) if use.last >= since and use.first < until]

    def devices(self) -> Sequence[Device]:
        with self._lock:
            known = list(self._devices.values())
        return sorted(known, key=lambda device: (device.index, device.uuid))

    def metrics(self, device: str) -> Sequence[str]:
        with self._lock:  # a dictionary that grows meanwhile cannot be walked
            known = dict.fromkeys([*self._heads, *(key for key, _ in self._blocks)])
        return [metric for owner, metric in known if owner == device]

    def size_bytes(self) -> int:
        with self._lock:
            return self._head_bytes() + self._block_bytes

    def compact(self, fully: bool = False) -> int:
        """Frees nothing: Python reuses free memory."""
        return 0

    def close(self) -> None:
        """Does nothing: there is nothing to close."""

    # Tiers.

    def contents(self) -> StoreContents:
        with self._lock:
            unpacked = {begin for points in self._heads.values() for begin in points.windows()}
            used = self._head_bytes() + self._block_bytes
            return StoreContents(tuple(unpacked), dict(self._extents), used, self._most_bytes)

    def load(self, devices: Sequence[Device], blocks: Iterable[StoredBlock]) -> None:
        with self._lock:
            self._devices |= {device.uuid: device for device in devices}
            for device, metric, tier, since, body in blocks:
                self._put((device, metric), tier, since, body)
                self._widen(tier, since, since + WINDOW_MS[tier])

    def pack(self, begin: int) -> Maintenance:
        end, ticks, made = begin + WINDOW_MS[Tier.RAW], set[int](), 0
        with self._lock:
            for key, points in self._heads.items():
                times, values = points.between(begin, end)
                if times:
                    earlier = self._blocks.get((key, Tier.RAW), {}).get(begin)
                    body = packed([at - begin for at in times], values, earlier)
                    self._put(key, Tier.RAW, begin, body)
                    points.drop(begin, end)
                    ticks.update(times)
                    made += 1
            self._widen(Tier.RAW, begin, end)
        return Maintenance(packed_ticks=len(ticks), packed_blocks=made)

    def shorten(self, tier: Tier, now: int) -> Maintenance:
        with self._lock:
            held = self._extents.pop(tier, None)
            ends = (since + WINDOW_MS[tier] for since in self._starts(tier))
            until = max((end for end in ends if end <= now), default=None)
            if held is not None and until is not None:
                self._widen(tier, held.since_ms, until)
        return Maintenance(shortened_tiers=1)

    def roll(self, due: DueRoll) -> Maintenance:
        tier, begin = due.tier, due.begin
        end, below, made, damaged = begin + WINDOW_MS[tier], Tier(tier - 1), 0, 0
        with self._lock:
            for key in [key for key, held in self._blocks if held is below]:
                finer = self._between(key, below, begin, end)
                earlier = self._blocks.get((key, tier), {}).get(begin)
                body, lost = rolled_up(tier, begin, finer, earlier)
                damaged += lost
                if body is not None:
                    self._put(key, tier, begin, body)
                    made += 1
            found = None if made else self._next(below, end)
            self._widen(tier, begin, rolled_until(due, found))
        return Maintenance(rolled_blocks=made, empty_windows=int(not made), damaged_blocks=damaged)

    def delete(self, tier: Tier, before: int) -> Maintenance:
        count = 0
        with self._lock:
            for (_, held), blocks in self._blocks.items():
                for since in [s for s in blocks if held is tier and s < before]:
                    self._block_bytes -= len(blocks.pop(since)) + BLOCK_BYTES
                    count += 1
            if tier in self._extents:
                extent = self._extents[tier]
                self._extents[tier] = Extent(max(extent.since_ms, before), extent.until_ms)
        return Maintenance(deleted_blocks=count)

    def forget(self, before: float) -> Maintenance:
        with self._lock:
            old = [key for key, use in self._uses.items() if use.last < before]
            for key in old:
                del self._uses[key]
        return Maintenance(deleted_uses=len(old))

    # Helpers.

    def _rows(self, key: Key, since: float, until: float, points: int) -> Iterator[SeriesRow]:
        begin, end = round(since * 1000), round(until * 1000)
        step = (end - begin) / points
        yield from rows_between(
            begin, end, step, self._extents, lambda tier, *span: self._between(key, tier, *span)
        )
        if key in self._heads:
            yield from grouped(*self._heads[key].between(begin, end), begin, step)

    def _between(self, key: Key, tier: Tier, begin: int, end: int) -> list[Block]:
        found = self._blocks.get((key, tier), {})
        return [(since, found[since]) for since in sorted(found) if begin <= since < end]

    def _next(self, tier: Tier, after: int) -> int | None:
        return min((since for since in self._starts(tier) if since >= after), default=None)

    def _starts(self, tier: Tier) -> Iterator[int]:
        return (s for (_, held), blocks in self._blocks.items() if held is tier for s in blocks)

    def _put(self, key: Key, tier: Tier, since: int, body: bytes) -> None:
        blocks = self._blocks.setdefault((key, tier), {})
        replaced = blocks.get(since)
        self._block_bytes += len(body) - (-BLOCK_BYTES if replaced is None else len(replaced))
        blocks[since] = body

    def _widen(self, tier: Tier, since: int, until: int) -> None:
        self._extents[tier] = widened(self._extents.get(tier), since, until)

    def _head_bytes(self) -> int:
        return POINT_BYTES * sum(map(len, self._heads.values()))

    def _keep_within(self) -> None:
        """Drops the oldest points between two runs of maintenance, which bounds the blocks."""
        if self._head_bytes() > self._most_bytes:
            for points in self._heads.values():
                points.drop_oldest(round(DROP_SHARE * len(points)) + 1)


# Alerts in memory: for tests, and where nothing may be written.

MOST_EPISODES = 2000


class MemoryAlertStore:
    """Keeps everything in memory; the state goes through JSON, as it does on disk."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: str | None = None
        self._deliveries: dict[tuple[str, str], Delivery] = {}
        self._episodes: dict[str, Alert] = {}

    def load(self) -> SavedAlerts | None:
        with self._lock:
            if self._state is None:
                return None
            return SavedAlerts(json.loads(self._state), tuple(self._deliveries.values()))

    def save(
        self, state: Mapping[str, Any], changed: Sequence[Alert], deliveries: Sequence[Delivery]
    ) -> None:
        with self._lock:
            self._state = json.dumps(state)
            self._deliveries = {delivery.key: delivery for delivery in deliveries}
            self._episodes |= {alert.id: trimmed(alert) for alert in changed if is_kept(alert)}

    def episodes(self, query: Query) -> Sequence[Alert]:
        with self._lock:
            found = [alert for alert in self._episodes.values() if matches(query, alert)]
        found.sort(key=lambda alert: (alert.since, alert.id), reverse=True)
        return found[: query.limit]

    def prune(self, at: float) -> int:
        with self._lock:
            before = len(self._episodes)
            kept = sorted(self._episodes.values(), key=lambda alert: alert.since)
            young = [a for a in kept if not _is_old(a, at)][-MOST_EPISODES:]
            self._episodes = {alert.id: alert for alert in young}
            return before - len(self._episodes)

    def close(self) -> None:
        """Does nothing: there is nothing to close."""


def _is_old(alert: Alert, at: float) -> bool:
    ended = alert.resolved if alert.state is Phase.RESOLVED else None
    return ended is not None and ended < at - KEPT_SECONDS
