"""Cost of the history: `python -m bench.history` writes a simulated day and queries it.

A few hours of eight devices are simulated at 1 Hz and repeated until the day is full; each sample
is some milliseconds late, as on a busy machine.
"""

import argparse
import json
import platform
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from andon.drivers.sim.rules import behaviour
from andon.history.rules.intervals import OpenIntervals, UsageInterval
from andon.history.rules.seeding import specimens
from andon.history.rules.series import NodeReadings, tick_of
from andon.history.rules.tiers import Retention
from andon.history.writer import Maintainer
from andon.model.device import DeviceStatus, Host, Snapshot, State
from andon.stores.sqlite import SqliteStore
from bench import prometheus
from bench.prometheus import Series

DEVICES, DAY_SECONDS, FLUSH_TICKS, UPKEEP_TICKS = 8, 86_400, 5, 60
POINTS, QUERIES = 1000, 20
METRIC = "utilization_percent"
BEGIN = 1_790_000_000 - 1_790_000_000 % 864_000


class Target(Struct, frozen=True):
    """A target, and the measured value."""

    promise: str
    measured: float
    most: float

    def __str__(self) -> str:
        verdict = "kept" if self.measured <= self.most else "MISSED"
        return f"{self.promise:<58} {self.measured:8.3f}  of {self.most:g}  {verdict}"


def main() -> None:
    options = _options()
    devices = specimens(DEVICES)
    played = _played(devices, options.simulated_minutes * 60)
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "history.db")
        beside = Series()
        own, work, longest, values = _day(store, played, options.hours * 3600, beside)
        queries, cpu = _queries(store, [s.uuid for s in devices], options.hours * 3600)
        Maintainer(store, Retention()).step(BEGIN + options.hours * 3600 + 600.0)
        raw = _raw_bytes(Path(folder) / "history.db")
        first = _raw_bytes(Path(folder) / "history.db", BEGIN + prometheus.BLOCK_SECONDS)
        size = store.size_bytes()
        store.close()
        peer = _prometheus(beside, Path(folder))
    ticks = options.hours * 3600
    print(f"{options.hours} h of {DEVICES} devices at 1 Hz: {values:,} values, {size / 1e6:.1f} MB")
    print(f"the recorder's own work per tick: {1000 * own / ticks:.3f} ms of CPU")
    print(f"longest single operation: {1000 * longest:.0f} ms")
    print(f"queries of {DEVICES} devices, ms: " + " ".join(f"{1000 * q:.0f}" for q in queries))
    print("the same in ms of CPU: " + " ".join(f"{1000 * q:.0f}" for q in cpu))
    print(f"the first 2 h: {first / beside.count:.3f} bytes per value; Prometheus: {peer}")
    targets = [
        Target("the store's work per tick, ms of CPU", 1000 * work / ticks, 0.3),
        Target("bytes per value, all readings packed", raw / values, 1.5),
        Target(f"{options.hours} h of {DEVICES} devices in {POINTS} points, ms, median",
               1000 * queries[len(queries) // 2], 100),
    ]  # fmt: skip
    print("\n".join(map(str, targets)))
    if options.json:
        _write(options.json, targets)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.history", description=__doc__)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--simulated-minutes", type=int, default=120)
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def _played(devices: tuple[behaviour.Specimen, ...], seconds: int) -> list[Snapshot]:
    return [
        Snapshot(
            "bench",
            float(BEGIN + at),
            True,
            host=Host(12.5 + at % 7, 8_000_000_000 + 4096 * (at % 50), 64_000_000_000, 1.25),
            devices=tuple(
                DeviceStatus(
                    behaviour.describe(s), State.OK, 0.0,
                    sample=behaviour.sample(s, BEGIN + at),
                    processes=behaviour.processes(s, BEGIN + at),
                )
                for s in devices
            ),
        )
        for at in range(seconds)
    ]  # fmt: skip


def _day(
    store: SqliteStore, played: list[Snapshot], seconds: int, beside: Series
) -> tuple[float, float, float, int]:
    """As the recorder does: its CPU, the store's, the longest operation, the number of values."""
    maintainer, uses, waiting = (
        Maintainer(store, Retention()),
        OpenIntervals(),
        list[NodeReadings](),
    )
    changed: dict[tuple[object, ...], UsageInterval] = {}
    own = spent = longest = 0.0
    values = 0
    for second in range(seconds):
        seen = played[second % len(played)]
        late = 0.003 + 0.006 * behaviour.draw(9, second) ** 3
        seen = Snapshot(seen.node, BEGIN + second + late, True, host=seen.host,
                        devices=seen.devices)  # fmt: skip
        began = time.process_time()
        uses, lengthened = uses.step(seen)
        waiting.append(tick_of(seen))
        changed |= {(*use.identity, use.first): use for use in lengthened}
        values += waiting[-1].count
        own += time.process_time() - began
        if second < prometheus.BLOCK_SECONDS:
            beside.add(waiting[-1])
        began = time.process_time()
        if len(waiting) == FLUSH_TICKS:
            store.write(waiting, tuple(changed.values()), [s.device for s in seen.devices])
            waiting, changed = [], {}
        if second % UPKEEP_TICKS == 0:
            maintainer.step(seen.at)
        piece = time.process_time() - began
        spent, longest = spent + piece, max(longest, piece)
    store.write(waiting, tuple(changed.values()))
    return own, spent, longest, values


def _queries(store: SqliteStore, uuids: list[str], seconds: int) -> tuple[list[float], list[float]]:
    """Wall and CPU time of each, fastest first: on a busy machine they differ a lot."""
    found, cpu = [], []
    for _ in range(QUERIES):
        began, spent = time.perf_counter(), time.process_time()
        for uuid in uuids:
            buckets = store.history(uuid, METRIC, BEGIN, BEGIN + seconds, POINTS)
            assert sum(bucket.count for bucket in buckets) == seconds
        found.append(time.perf_counter() - began)
        cpu.append(time.process_time() - spent)
    return sorted(found), sorted(cpu)


def _prometheus(series: Series, folder: Path) -> str:
    if not prometheus.is_here():
        return "– promtool is not installed"
    return str(prometheus.block(series, folder))


def _raw_bytes(path: Path, until: float = float("inf")) -> int:
    import sqlite3

    connection = sqlite3.connect(path)
    asked = "SELECT sum(length(body)) FROM block WHERE tier = 0 AND since < ?"
    found: int = connection.execute(asked, (until * 1000,)).fetchone()[0]
    connection.close()
    return found


def _write(path: Path, targets: list[Target]) -> None:
    found = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", "-m", "bench.history", *sys.argv[1:]]),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "targets": [
            {"promise": t.promise, "measured": t.measured, "most": t.most} for t in targets
        ],
    }
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
