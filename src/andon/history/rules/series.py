"""Readings of devices over time, stored as whole numbers at the sensor's resolution.

A series is one reading of one device, or of the node itself (`HOST`). What was not read has no
point: a gap stays a gap.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import compress
from typing import Any, Protocol, get_args, get_type_hints

from msgspec import Struct

from andon.history.rules.codec import VALUE_LIMIT, SeriesRow
from andon.model.codec import Number, Time, Whole
from andon.model.device import SAMPLE_VALUES, Device, Host, Sample, Snapshot
from andon.model.throttling import IDLE, OTHER, OTHER_BIT, REASONS
from andon.model.wire import sample_values
from andon.units import unit_of

HOST = "host"
"""The device name for the node's own values."""
HOST_METRICS = (
    "cpu_percent", "memory_used_bytes", "load_1m", "disk_used_bytes",
    "network_received_bytes", "network_sent_bytes",
    "disk_read_bytes_per_second", "disk_written_bytes_per_second",
    "network_received_bytes_per_second", "network_sent_bytes_per_second",
)  # fmt: skip
METRICS = SAMPLE_VALUES
USED = ("used_joules", "used_seconds", "used_idle_seconds")
"""What was used since the point before, while a process was on the device (`ledger`): energy, time
in which utilisation is known, and how much of it was idle."""
LONGEST_SPAN_SECONDS = 90.0
"""Between two points of a device in use; most follow its counter, which is read once a minute."""

_RATES = frozenset(n for n in (*METRICS, *HOST_METRICS) if unit_of(n) == "bytes_per_second")

_BITS = {OTHER: 1 << OTHER_BIT} | {reason.name: 1 << reason.history_bit for reason in REASONS}

_RESOLUTIONS = {"watts": 1000, "joules": 1000, "percent": 100}
"""The parts of a unit that are kept of a reading with a fraction."""
_SCALES = (
    {
        name: _RESOLUTIONS.get(unit_of(name), 1)
        for name, kind in get_type_hints(Sample).items()
        if float in get_args(kind)
    }
    | {"cpu_percent": 10, "load_1m": 100, "used_joules": 10}
    | dict.fromkeys(USED[1:], 100)
)
"""The factor by which a value is stored; the others are whole numbers already."""

Key = tuple[str, str]
"""Device and metric."""


class NodeReadings(Struct, frozen=True):
    """The readings of a node at one instant, device by device."""

    at: float
    readings: tuple[tuple[str, tuple[str, ...], tuple[int, ...]], ...]
    """Device, metrics and their values."""

    @property
    def at_ms(self) -> int:
        """The time to ten milliseconds: finer times would only store jitter, at a high cost."""
        return 10 * round(self.at * 100)

    @property
    def count(self) -> int:
        return sum(len(values) for _, _, values in self.readings)


class Bucket(Struct, frozen=True):
    """The readings of one span of time; None where there are none."""

    since: Time
    until: Time
    count: Whole = 0
    min: Number | None = None
    mean: Number | None = None
    max: Number | None = None


class BucketSource(Protocol):
    """A source of a series' buckets: a store, or a server's history."""

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]: ...


def scale_of(metric: str) -> int:
    return _SCALES.get(metric, 1)


def stored_value(metric: str, value: object) -> int | None:
    """Returns a reading as it is stored; None for one that is not a number."""
    if isinstance(value, tuple):
        return throttle_mask(value)
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    whole = coarse(value) if metric in _RATES else round(value * _SCALES.get(metric, 1))
    return whole if -VALUE_LIMIT < whole < VALUE_LIMIT else None


@lru_cache(maxsize=256)
def throttle_mask(reasons: tuple[str, ...]) -> int:
    mask = 0
    for reason in reasons:
        mask |= _BITS.get(reason, _BITS[OTHER])
    return mask


def throttle_reasons(mask: int) -> tuple[str, ...]:
    return tuple(name for name, bit in _BITS.items() if mask & bit)


def throttled_series(reason: str) -> str:
    """Returns the series that has a point for every reading in which the reason applied.

    Minimum, mean and maximum of masks give no shares of time, but numbers of points stay right
    however coarse the rows become: divided by those of `throttle` they are the share.
    """
    return f"throttle:{reason}"


@lru_cache(maxsize=256)
def _active_series(mask: int) -> tuple[str, ...]:
    """Returns the series of the active reasons; idleness is no throttling, and would cost a
    point for each reading of an idle device."""
    return tuple(throttled_series(name) for name in throttle_reasons(mask & ~_BITS[IDLE.name]))


_MADE: deque[tuple[Snapshot, NodeReadings]] = deque(maxlen=8)
"""The latest: a recorder and reports to a hub take the same snapshots, every five seconds."""


def tick_of(snapshot: Snapshot) -> NodeReadings:
    """Returns the readings of a snapshot, without missing values and silent devices."""
    for one, made in tuple(_MADE):
        if one is snapshot:
            return made
    found = _tick_of(snapshot)
    _MADE.append((snapshot, found))
    return found


def _tick_of(snapshot: Snapshot) -> NodeReadings:
    readings = [
        _reading(status.device.uuid, status.sample)
        for status in snapshot.devices
        if status.answered and status.sample is not None
    ]
    readings.append(_of_host(snapshot.host))
    return NodeReadings(snapshot.at, tuple(reading for reading in readings if reading[1]))


def facts_of(snapshot: Snapshot) -> tuple[Device, ...]:
    """Returns the devices, so that they can be named later."""
    return tuple(status.device for status in snapshot.devices if status.answered)


def _reading(device: str, sample: Sample) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
    """Returns a device's readings; runs for every tick, so valid values take the fast path."""
    read = sample_values(sample)
    try:
        whole = [v if keep is None or v is None else keep(v) for keep, v in zip(_CONVERTERS, read)]  # noqa: B905
    except (ValueError, OverflowError):  # NaN or infinity
        return device, *_carefully(read)
    known = tuple([value is not None for value in whole])
    values = tuple(compress(whole, known))
    if set(map(type, values)) <= _INT and (not values or _fits(values)):
        mask = whole[_THROTTLE] or 0
        return device, _known_metrics(known, mask), values + (1,) * len(_active_series(mask))
    return device, *_carefully(read)


@lru_cache(maxsize=256)
def _known_metrics(known: tuple[bool, ...], mask: int) -> tuple[str, ...]:
    """Returns the readings' names; the same tuple for all ticks, so that a backlog stays small."""
    return tuple(compress(METRICS, known)) + _active_series(mask)


def _fits(values: Sequence[int]) -> bool:
    return max(values) < VALUE_LIMIT and min(values) > -VALUE_LIMIT


def _carefully(read: tuple[object, ...]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    known = [
        (metric, whole)
        for metric, value in zip(METRICS, read, strict=True)
        if (whole := stored_value(metric, value)) is not None
    ]
    known += [(name, 1) for name in _active_series(dict(known).get("throttle", 0))]
    return tuple(metric for metric, _ in known), tuple(whole for _, whole in known)


@lru_cache(maxsize=1024)  # a rate stays the same for several ticks
def coarse(rate: float) -> int:
    """Rounds a rate to eight binary digits, half a per cent: the rest is costly noise."""
    whole = round(rate)
    spare = max(0, abs(whole).bit_length() - 8)
    return whole >> spare << spare


def _converter(metric: str) -> Callable[[Any], int] | None:
    if metric == "throttle":
        return throttle_mask
    if metric in _RATES:
        return coarse
    scale = scale_of(metric)
    if scale == 1000:
        return lambda value: round(value * 1000)
    return None if scale == 1 else lambda value: round(value * scale)


_CONVERTERS = tuple(map(_converter, METRICS))
_THROTTLE = METRICS.index("throttle")
_INT = {int}


def _of_host(host: Host) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
    disks = [disk.used_bytes for disk in host.disk]
    links = host.network
    values = (
        host.cpu_percent, host.memory_used_bytes, host.load_1m,
        sum(disks) if disks else None,
        sum(link.received_bytes for link in links) if links else None,
        sum(link.sent_bytes for link in links) if links else None,
        host.disk_read_bytes_per_second, host.disk_written_bytes_per_second,
        host.network_received_bytes_per_second, host.network_sent_bytes_per_second,
    )  # fmt: skip
    known = [
        (metric, whole)
        for metric, value in zip(HOST_METRICS, values, strict=True)
        if (whole := stored_value(metric, value)) is not None
    ]
    return HOST, tuple(m for m, _ in known), tuple(v for _, v in known)


def buckets(
    rows: Iterable[SeriesRow], since: float, until: float, count: int, scale: int = 1
) -> list[Bucket]:
    """Returns the rows in `count` equal spans; a row belongs to the span where it starts."""
    begin_ms, end_ms = since * 1000, until * 1000
    width_ms = (end_ms - begin_ms) / count
    counts, totals = [0] * count, [0] * count
    lows: list[int] = [0] * count
    highs: list[int] = [0] * count
    for at_ms, number, low, high, total in rows:
        place = int((at_ms - begin_ms) // width_ms)
        if not 0 <= place < count or at_ms >= end_ms:  # the width is rounded
            continue
        if not counts[place]:
            lows[place], highs[place] = low, high
        elif low < lows[place]:
            lows[place] = low
        if high > highs[place]:
            highs[place] = high
        counts[place] += number
        totals[place] += total
    edges = [since + (until - since) * place / count for place in range(count + 1)]
    return [
        # Rounding must not carry the mean of equal values past them.
        Bucket(begin, end, number, low / scale, min(max(total / number, low), high) / scale,
               high / scale) if number else Bucket(begin, end)
        for begin, end, number, low, high, total in zip(
            edges[:-1], edges[1:], counts, lows, highs, totals, strict=True
        )
    ]  # fmt: skip


def summary(found: Sequence[Bucket]) -> Bucket | None:
    """Returns all buckets as one; None if none has a reading."""
    known = [bucket for bucket in found if bucket.count]
    if not known:
        return None
    count = sum(bucket.count for bucket in known)
    return Bucket(
        found[0].since,
        found[-1].until,
        count,
        min(bucket.min for bucket in known if bucket.min is not None),
        sum((bucket.mean or 0.0) * bucket.count for bucket in known) / count,
        max(bucket.max for bucket in known if bucket.max is not None),
    )
