"""The last day of a simulated lab, as a recorder would have written it."""

from collections.abc import Iterator

from andon.drivers.sim.rules import behaviour
from andon.drivers.sim.rules.lab import Lab, LabWork
from andon.history.rules.codec import SeriesRow, pack_points, pack_rows
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.seeding import tick
from andon.history.rules.series import Key, NodeReadings
from andon.history.rules.tiers import DAY_SECONDS, WINDOW_MS, StoredBlock, Tier, window
from andon.model.programs import program_of

MINUTE = 60_000
PARTS = 6  # minutes between two readings of the past
STEP, RAW_STEP, LAST_STEP = PARTS * MINUTE, 40_000, 5_000  # milliseconds between two readings
KEPT = frozenset({
    "utilization_percent", "memory_used_bytes", "temperature_celsius", "power_watts",
    "sm_clock_mhz", "memory_clock_mhz", "sm_active_percent", "tensor_active_percent",
    "energy_joules", "pcie_received_bytes_per_second", "pcie_sent_bytes_per_second",
    "nvlink_received_bytes_per_second", "nvlink_sent_bytes_per_second",
})  # fmt: skip
"""The readings of the past that are drawn; those of throttling are kept too."""


def blocks(lab: Lab, now: float) -> Iterator[StoredBlock]:
    """Yields the blocks of the day: minutes first, and raw ones that are not rolled up yet."""
    now_ms = int(now * 1000)
    rolled, packed = window(Tier.MINUTE, now_ms), window(Tier.RAW, now_ms)
    first = window(Tier.MINUTE, now_ms - int(DAY_SECONDS * 1000))
    yield from _blocks(lab, Tier.MINUTE, first, rolled, STEP)
    yield from _blocks(lab, Tier.RAW, rolled, packed, RAW_STEP)


def last_ticks(lab: Lab, now: float) -> list[NodeReadings]:
    """Returns the readings that are not packed yet."""
    now_ms = int(now * 1000)
    begin = window(Tier.RAW, now_ms)
    return [reading(lab, at / 1000) for at in range(begin, now_ms, LAST_STEP)]


def uses(lab: Lab, now: float) -> list[UsageInterval]:
    """Returns who used which GPU."""
    return [
        UsageInterval(
            lab.devices[gpu].uuid, lab.pid(work) - work.gpus[0] + gpu, round(work.began, 2),
            work.user, program_of(work.command), work.began, min(now, work.ended),
            _peak_bytes(lab, work, gpu),
        )
        for work in lab.works if work.began < now for gpu in work.gpus
    ]  # fmt: skip


def reading(lab: Lab, at: float) -> NodeReadings:
    """Returns what the GPUs of the lab read at an instant; a lost one reads nothing."""
    present = [d.index for d in lab.devices if not lab.is_lost(d.index, at)]
    return tick([lab.device(index, at) for index in present], at)


def _peak_bytes(lab: Lab, work: LabWork, gpu: int) -> int:
    on = behaviour.processes(lab.device(gpu, work.ended - 30.0), work.ended - 30.0)
    return max((process.memory_bytes or 0 for process in on), default=0)


def _blocks(lab: Lab, tier: Tier, begin: int, end: int, step: int) -> Iterator[StoredBlock]:
    for start in range(begin, end, WINDOW_MS[tier]):
        columns: dict[Key, tuple[list[int], list[int]]] = {}
        for at in range(start, start + WINDOW_MS[tier], step):
            for device, metrics, values in reading(lab, at / 1000).readings:
                for metric, value in zip(metrics, values, strict=True):
                    if metric in KEPT or metric.startswith("throttle"):
                        times, column = columns.setdefault((device, metric), ([], []))
                        times.append(at - start)
                        column.append(value)
        for (device, metric), (times, column) in columns.items():
            made = pack_points if tier is Tier.RAW else _minutes
            yield device, metric, tier, start, made(times, column)


def _minutes(times: list[int], values: list[int]) -> bytes:
    """Returns a row for every minute, between two readings on the line that joins them."""
    rows = []
    for place, (at, value) in enumerate(zip(times, values, strict=True)):
        follows = place + 1 < len(times) and times[place + 1] == at + STEP
        rise = values[place + 1] - value if follows else 0
        for part in range(PARTS):
            mean = value + rise * part // PARTS
            rows.append(SeriesRow(at + part * MINUTE, 1, mean, mean, mean))
    return pack_rows(rows)
