"""The last day of the demo, as a recorder would have written it."""

from collections.abc import Iterable, Iterator

from andon.drivers.sim.rules import behaviour
from andon.drivers.sim.rules.demo import Demo, DemoWork
from andon.history.rules.codec import pack_points
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.seeding import status_of
from andon.history.rules.series import Key, NodeReadings, tick_of
from andon.history.rules.tiers import DAY_SECONDS, WINDOW_MS, StoredBlock, Tier, window
from andon.model.device import Snapshot
from andon.model.programs import program_of

MINUTE = 60_000
ROW, PARTS = 2 * MINUTE, 3  # a row of the past, and how many of them come from one reading
STEP = PARTS * ROW
RAW_MS = 120 * MINUTE
PACES = ((6 * MINUTE, 6_000, 3), (32 * MINUTE, 20_000, 4), (RAW_MS * 2, MINUTE, 6))
"""Up to which age a reading is made every so many milliseconds, and in how many parts."""
STORED = frozenset({
    "utilization_percent", "memory_used_bytes", "temperature_celsius", "power_watts",
    "sm_clock_mhz", "memory_clock_mhz", "sm_active_percent", "tensor_active_percent",
    "energy_joules", "pcie_received_bytes_per_second", "pcie_sent_bytes_per_second",
    "nvlink_received_bytes_per_second", "nvlink_sent_bytes_per_second",
})  # fmt: skip
"""The readings of the past that are drawn; those of throttling are kept too."""


def blocks(demo: Demo, now: float) -> Iterator[StoredBlock]:
    """Yields the blocks of the day by minutes, and raw ones of the last hours."""
    now_ms = int(now * 1000)
    rolled, packed = window(Tier.MINUTE, now_ms), window(Tier.RAW, now_ms)
    first = window(Tier.MINUTE, now_ms - int(DAY_SECONDS * 1000))
    for start in range(first, rolled, WINDOW_MS[Tier.MINUTE]):
        times = range(start, start + WINDOW_MS[Tier.MINUTE], STEP)
        made = _columns((reading(demo, at / 1000, STEP / 1000) for at in times), start)
        yield from ((*key, Tier.MINUTE, start, _minutes(*column)) for key, column in made.items())
    for start in range(window(Tier.RAW, now_ms - RAW_MS), packed, WINDOW_MS[Tier.RAW]):
        made = _columns(_between(demo, start, start + WINDOW_MS[Tier.RAW], now_ms), start)
        yield from ((*key, Tier.RAW, start, pack_points(*column)) for key, column in made.items())


def last_ticks(demo: Demo, packed: float, now: float) -> list[NodeReadings]:
    """Returns the readings up to now that the blocks up to `packed` do not have."""
    now_ms = int(now * 1000)
    return list(_between(demo, window(Tier.RAW, int(packed * 1000)), now_ms, now_ms))


def uses(demo: Demo, now: float) -> list[UsageInterval]:
    """Returns who used which GPU."""
    return [
        UsageInterval(
            demo.devices[gpu].uuid, demo.pid(work) - work.gpus[0] + gpu, round(work.began, 2),
            work.user, program_of(work.command), work.began, min(now, work.ended),
            _peak_bytes(demo, work, gpu),
        )
        for work in demo.works if work.began < now for gpu in work.gpus
    ]  # fmt: skip


def reading(demo: Demo, at: float, seconds: float) -> NodeReadings:
    """Returns the readings of the demo's GPUs over some seconds; a lost one has none."""
    found = [
        status_of(demo.device(one.index, at), at, seconds)
        for one in demo.devices if not demo.is_lost(one.index, at)
    ]  # fmt: skip
    return tick_of(Snapshot("simulated", at, True, devices=tuple(found)))


def _peak_bytes(demo: Demo, work: DemoWork, gpu: int) -> int:
    times = (work.ended - 30.0, work.ended - 60.0)  # a program that leaks may be starting again
    on = [one for at in times for one in behaviour.processes(demo.device(gpu, at), at)]
    return max((process.memory_bytes or 0 for process in on), default=0)


def _columns(ticks: Iterable[NodeReadings], start: int) -> dict[Key, tuple[list[int], list[int]]]:
    """Returns times and values of each series, since the start of a block."""
    rows: dict[tuple[str, tuple[str, ...]], list[tuple[int, tuple[int, ...]]]] = {}
    for one in ticks:
        for device, metrics, values in one.readings:
            rows.setdefault((device, metrics), []).append((one.at_ms - start, values))
    found: dict[Key, list[tuple[int, int]]] = {}
    for (device, metrics), samples in rows.items():
        times = [at for at, _ in samples]
        for metric, column in zip(metrics, zip(*(v for _, v in samples), strict=True), strict=True):
            if metric in STORED or metric.startswith("throttle"):
                found.setdefault((device, metric), []).extend(zip(times, column, strict=True))
    return {key: _split(sorted(points)) for key, points in found.items()}


def _split(points: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [at for at, _ in points], [value for _, value in points]


def _between(demo: Demo, begin: int, end: int, now: int) -> Iterator[NodeReadings]:
    """Yields readings at the pace that a chart of their age needs; most are interpolated."""
    at, first = begin, None
    while at < end:
        step, parts = next(found for age, *found in PACES if now - at <= age)
        first = first or reading(demo, at / 1000, step / 1000)
        after = reading(demo, (at + step) / 1000, step / 1000)
        for part in range(parts):
            if at + step * part // parts < end:
                yield _mixed(first, after, part / parts)
        at, first = at + step, after


def _mixed(first: NodeReadings, after: NodeReadings, share: float) -> NodeReadings:
    if not share:
        return first
    known = {device: (metrics, values) for device, metrics, values in after.readings}
    found = []
    for device, metrics, values in first.readings:
        names, then = known.get(device, ((), ()))
        pairs = zip(values, then if names == metrics else values, strict=True)
        mixed = tuple([int(value + (later - value) * share) for value, later in pairs])
        found.append((device, metrics, mixed))
    return NodeReadings(first.at + (after.at - first.at) * share, tuple(found))


def _minutes(times: list[int], values: list[int]) -> bytes:
    """Returns rows of one reading each, between two readings on the line that joins them."""
    rises = [
        later - value if after == at + STEP else 0
        for at, after, value, later in zip(times, times[1:], values, values[1:], strict=False)
    ]
    found = [
        value + rise * part // PARTS
        for value, rise in zip(values, (*rises, 0), strict=True)
        for part in range(PARTS)
    ]
    return pack_points([at + part for at in times for part in range(0, STEP, ROW)], found)
