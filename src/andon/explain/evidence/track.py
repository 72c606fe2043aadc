"""The recent past of one device: a point every ten seconds, trends, flickering throttle reasons."""

from collections.abc import Iterable
from typing import NamedTuple

from andon.explain.evidence.forecast import Point, Trend, trend
from andon.model.device import DeviceStatus, MemoryKind, Sample
from andon.model.utilisation import BARELY_BUSY_PERCENT

EVERY_SECONDS = 10.0
TREND_SECONDS = 30.0
POINTS = 180  # half an hour
MOST_READINGS = 360  # an hour
GAP_SECONDS = 300.0  # after a longer gap the earlier points say nothing about the rise since
LEAST_MEMORY_SHARE = 0.05  # of the device's memory: a smaller leak is not worth reporting
LEAST_CELSIUS = 4.0
FLICKER_SECONDS = 5.0  # a card at its limit sets and clears its reasons every second

Reasons = tuple[str, ...]


class Track(NamedTuple):
    """The recent past of one device, some hundreds of points. Times are on the steady clock."""

    point_at: float
    trend_at: float = 0.0
    throttle: Reasons | None = None  # the latest; None if unknown
    faded: tuple[tuple[str, float], ...] = ()  # reasons that cleared, and when last seen
    who: tuple[tuple[int, float | None], ...] = ()
    worked: tuple[tuple[int, float | None], ...] = ()  # the processes when it was last busy
    memory: tuple[Point, ...] = ()
    heat: tuple[Point, ...] = ()
    readings: tuple[tuple[float, Reasons], ...] = ()
    unsure: bool = True  # whether earlier memory readings are missing
    memory_trend: Trend | None = None
    heat_trend: Trend | None = None

    def reasons(self, steady: float) -> Reasons | None:
        """Returns the throttle reasons now or a moment ago; None if unknown."""
        if self.throttle is None or not self.faded:
            return self.throttle
        lately = [r for r, seen in self.faded if steady - seen <= FLICKER_SECONDS]
        return (*self.throttle, *lately) if lately else self.throttle

    def held_back_percent(self, reasons: Iterable[str]) -> float | None:
        """The share of the last hour's readings in which one of these reasons was active."""
        named = frozenset(reasons)
        readings = [held for at, held in self.readings if self.readings[-1][0] - at <= 3600.0]
        if not readings:
            return None
        return round(
            100.0 * sum(not named.isdisjoint(held) for held in readings) / len(readings), 1
        )


def updated_track(
    track: Track | None, status: DeviceStatus, steady: float, before: float | None
) -> Track:
    """Returns the track with this sample added; the same object if there is nothing to add.

    `before` is the time of the previous sample.
    """
    sample = status.sample if status.answered else None
    if track is None:
        # Staggered by index, so that no single sample computes the trends of all devices.
        track = Track(steady - EVERY_SECONDS + status.device.index % int(EVERY_SECONDS))
    throttle = sample.throttle if sample is not None else None
    if throttle != track.throttle:
        seen = steady if before is None else before
        track = track._replace(throttle=throttle, faded=_faded(track, throttle, seen, steady))
    if sample is None or steady - track.point_at < EVERY_SECONDS:
        return track
    return _with_point(track, status, sample, steady)


def _faded(
    track: Track, throttle: Reasons | None, seen: float, steady: float
) -> tuple[tuple[str, float], ...]:
    now = throttle or ()
    old = [one for one in track.faded if steady - one[1] <= FLICKER_SECONDS]
    new = [(reason, seen) for reason in track.throttle or ()]
    return tuple((r, at) for r, at in {**dict(old), **dict(new)}.items() if r not in now)


def _with_point(track: Track, status: DeviceStatus, sample: Sample, steady: float) -> Track:
    who = tuple((p.pid, p.started) for p in status.processes)
    fresh = steady - track.point_at > GAP_SECONDS
    # A different or newly started program is loading: not a trend of what was there before.
    other = who != track.who and bool(track.memory)
    earlier = () if fresh or other else track.memory
    memory = _appended(earlier, steady, sample.memory_used_bytes)
    heat = _appended(() if fresh else track.heat, steady, sample.temperature_celsius)
    readings = track.readings[-MOST_READINGS + 1 :]
    if sample.throttle is not None:
        readings = (*readings, (steady, sample.throttle))
    track = track._replace(
        point_at=steady,
        who=who,
        worked=who if (sample.utilization_percent or 0) > BARELY_BUSY_PERCENT else track.worked,
        memory=memory,
        heat=heat,
        readings=readings,
        unsure=fresh or (track.unsure and not other),
    )
    due = other or fresh or steady - track.trend_at >= TREND_SECONDS
    return _with_trends(track, status, steady) if due else track


def _with_trends(track: Track, status: DeviceStatus, steady: float) -> Track:
    total, own = status.device.memory_total_bytes, status.device.memory_kind is MemoryKind.DEVICE
    return track._replace(
        trend_at=steady,
        memory_trend=trend(track.memory, LEAST_MEMORY_SHARE * total) if total and own else None,
        heat_trend=trend(track.heat, LEAST_CELSIUS),
    )


def _appended(points: tuple[Point, ...], steady: float, value: float | None) -> tuple[Point, ...]:
    return points if value is None else (*points[-POINTS + 1 :], (steady, float(value)))
