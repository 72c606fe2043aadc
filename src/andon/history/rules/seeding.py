"""A simulated history, generated quickly: an hour and a day are simulated, then repeated."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from andon.drivers.sim.rules import behaviour
from andon.drivers.sim.rules.behaviour import Specimen
from andon.drivers.sim.rules.scenarios import plan
from andon.history.rules.codec import SeriesRow, pack_points, pack_rows, point, shifted
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import Key, NodeReadings, tick_of
from andon.history.rules.tiers import (
    DAY_SECONDS,
    WINDOW_MS,
    Retention,
    StoredBlock,
    Tier,
    rolled,
    window,
)
from andon.model.device import DeviceStatus, Snapshot, State

COUNTERS = ("energy_joules",)
"""Counters: each repetition continues where the previous one ended."""
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
SAMPLES_PER_MINUTE = 2
USE_STEP_SECONDS = 1800.0

Columns = dict[Key, tuple[list[int], list[int]]]


class Pattern(Struct, frozen=True):
    """The blocks of one period of a series, and how much a counter rises in it."""

    blocks: tuple[bytes | None, ...]
    """None where a series has no point, such as one of a throttle reason."""
    rise: int


def specimens(count: int, seed: int = 1, scenario: str = "mixed") -> tuple[Specimen, ...]:
    """Returns the devices of a simulation with this seed."""
    parts = plan(count, scenario, (), ()).parts
    return tuple(behaviour.make_specimen(i, seed, *part) for i, part in enumerate(parts))


def tick(devices: Sequence[Specimen], at: float) -> NodeReadings:
    """Returns a sample of the simulated devices."""
    return tick_of(
        Snapshot("simulated", at, True, devices=tuple(status_of(s, at) for s in devices))
    )


def blocks(
    devices: Sequence[Specimen], now: float, days: float, retention: Retention
) -> Iterator[StoredBlock]:
    """Yields all blocks up to now in every tier, as if andon had run for this many days."""
    hour = _columns(devices, int(now * 1000) // HOUR_MS * HOUR_MS - HOUR_MS, HOUR_MS, 1000)
    step = 60_000 // SAMPLES_PER_MINUTE
    day = _columns(devices, int(now * 1000) // DAY_MS * DAY_MS - DAY_MS, DAY_MS, step)
    for key in {**hour, **day}:
        often, seldom = hour.get(key, ([], [])), day.get(key, ([], []))
        for tier, pattern, period in (
            (Tier.RAW, _raw(often), HOUR_MS),
            (Tier.MINUTE, _minutes(seldom), DAY_MS),
            (Tier.HOUR, _hours(seldom, key[1] in COUNTERS), 10 * DAY_MS),
        ):
            seconds = min(days * DAY_SECONDS, retention.of(tier))
            yield from _repeated(key, tier, pattern, period, now, seconds)


def last_ticks(devices: Sequence[Specimen], now: float) -> list[NodeReadings]:
    """Returns the samples that are not packed yet."""
    begin = window(Tier.RAW, int(now * 1000)) // 1000
    return [tick(devices, float(at)) for at in range(begin, int(now))]


def uses(devices: Sequence[Specimen], now: float, days: float) -> list[UsageInterval]:
    """Returns who used the devices; sampled coarsely to be fast."""
    found: dict[tuple[str, int, float], UsageInterval] = {}
    for number in range(int(days * DAY_SECONDS / USE_STEP_SECONDS), -1, -1):
        at = now - number * USE_STEP_SECONDS
        for specimen in devices:
            for process in behaviour.processes(specimen, at):
                use = UsageInterval(
                    specimen.uuid, process.pid, process.started, process.user, process.name,
                    max(at - USE_STEP_SECONDS, process.started or 0.0), at, process.memory_bytes,
                )  # fmt: skip
                found[use.identity] = _longer(found.get(use.identity), use)
    return list(found.values())


def _longer(known: UsageInterval | None, use: UsageInterval) -> UsageInterval:
    if known is None:
        return use
    peak = max(known.peak_memory_bytes or 0, use.peak_memory_bytes or 0)
    return UsageInterval(
        use.device, use.pid, use.started, use.user, use.name, known.first, use.last, peak
    )


def status_of(specimen: Specimen, at: float, seconds: float = 0.0) -> DeviceStatus:
    sample = behaviour.sample(specimen, at, seconds)
    if specimen.model.lacks:
        sample = replace(sample, **dict.fromkeys(specimen.model.lacks))
    return DeviceStatus(behaviour.describe(specimen), State.OK, at, sample=sample)


def _columns(devices: Sequence[Specimen], begin_ms: int, length_ms: int, step_ms: int) -> Columns:
    """Returns the series of a period and one more point, for the value of a counter at its end."""
    found: Columns = {}
    for at_ms in range(begin_ms, begin_ms + length_ms + step_ms, step_ms):
        for device, metrics, values in tick(devices, at_ms / 1000).readings:
            for metric, value in zip(metrics, values, strict=True):
                times, column = found.setdefault((device, metric), ([], []))
                times.append(at_ms - begin_ms)
                column.append(value)
    return found


def _raw(column: tuple[list[int], list[int]]) -> Pattern:
    times, values = column
    made = []
    for begin in range(0, HOUR_MS, WINDOW_MS[Tier.RAW]):
        end = bisect_left(times, begin + WINDOW_MS[Tier.RAW])
        span = slice(bisect_left(times, begin), end)
        since = [at - begin for at in times[span]]
        made.append(pack_points(since, values[span]) if since else None)
    return Pattern(tuple(made), _rise(values))


def _minutes(column: tuple[list[int], list[int]]) -> Pattern:
    length, parts = WINDOW_MS[Tier.MINUTE], dict[int, list[SeriesRow]]()
    for row in _minute_rows(column):
        found = parts.setdefault(row.at_ms // length, [])
        found.append(row._replace(at_ms=row.at_ms % length))
    made = [pack_rows(parts[n]) if n in parts else None for n in range(DAY_MS // length)]
    return Pattern(tuple(made), _rise(column[1]))


def _hours(column: tuple[list[int], list[int]], is_counter: bool) -> Pattern:
    """Returns a block of hourly rows with one day repeated ten times; counters rise."""
    day, rise = rolled(_minute_rows(column), Tier.HOUR), _rise(column[1])
    rows = [
        SeriesRow(at + number * DAY_MS, count, low + more, high + more, total + count * more)
        for number in range(10)
        for more in (number * rise if is_counter else 0,)
        for at, count, low, high, total in day
    ]
    return Pattern((pack_rows(rows) if rows else None,), 10 * rise)


def _minute_rows(column: tuple[list[int], list[int]]) -> list[SeriesRow]:
    points = [point(at, v) for at, v in zip(*column, strict=True) if at < DAY_MS]
    return rolled(points, Tier.MINUTE)


def _rise(values: Sequence[int]) -> int:
    return values[-1] - values[0] if values else 0


def _repeated(
    key: Key, tier: Tier, pattern: Pattern, period_ms: int, now: float, seconds: float
) -> Iterator[StoredBlock]:
    length, now_ms = WINDOW_MS[tier], int(now * 1000)
    present = now_ms // period_ms
    first = window(tier, now_ms - int(seconds * 1000)) + length
    for begin in range(first, window(tier, now_ms), length):
        body = pattern.blocks[begin // length % len(pattern.blocks)]
        if body is None:
            continue
        if key[1] in COUNTERS:
            body = shifted(body, (begin // period_ms - present) * pattern.rise)
        yield (*key, tier, begin, body)
