"""Two months in an hour: `python -m bench.soak`, for a server, two agents and a hub.

Samples what their processes hold and what they leave on disks, and prints a line through each
figure after a warm-up, in which each process was started again. What grows by more than its noise
fails, and the exit code is 1. A part of the hour has the same speed; a database is judged only if
the end of all retention was seen, as in the whole hour.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from bench.fleet_database import database
from bench.slopes import Point, settled, trend
from bench.soak_life import Life
from bench.soak_world import ZONE, World
from bench.tools import resident_bytes

WARM_UP = 0.4  # of the time: 24 of 60 days
FULL_DAYS = 22  # of a database: the means of 11 days are kept, in windows of 10
TIMES = 1440  # as fast as the clock of others
RESTARTS = (0.03, 0.06, 0.09)  # of the time: each of the server, the agent and the hub once
SAMPLES = 300
DAY = 86_400
FLOORS = {
    "memory": 3e6,
    "database": 0.5e6,
    "descriptors": 1,
    "threads": 1,
    "sockets": 1,
    "files": 4,
}
"""What is noise whatever the samples say: the heap of twenty threads settles for minutes."""
Series = dict[tuple[str, str], list[Point]]


def main() -> int:
    options = _options()
    seconds, times = 60 * options.minutes, options.times
    with tempfile.TemporaryDirectory(prefix="andon-soak-") as folder:
        with closing(World(Path(folder), times)) as world:
            began = time.monotonic()
            print(_shown(world, times), flush=True)
            series: Series = {}
            over = threading.Event()
            sampling = threading.Thread(
                target=_sample, args=(world, series, seconds / SAMPLES, over), daemon=True
            )
            sampling.start()
            life = Life(world)
            roles = (world.server, world.agent, world.hub)
            due = [(began + s * seconds, r) for s, r in zip(RESTARTS, roles, strict=True)]
            life.live(began + seconds, due)
            over.set()
            sampling.join()
            print(_shown(world, times))
        print(", ".join(f"{count} {what}" for what, count in sorted(life.done.items())))
        if options.json:
            named = {" ".join(name): points for name, points in series.items()}
            options.json.write_text(json.dumps(named), encoding="utf-8")
        return _judged(series, seconds * times / DAY)


def _shown(world: World, times: int) -> str:
    now = datetime.fromtimestamp(world.clock.now(), ZoneInfo(ZONE))
    return f"{now:%Y-%m-%d %H:%M %Z}, a clock {times} times as fast; load {os.getloadavg()[0]:.1f}"


def _sample(world: World, series: Series, every: float, over: threading.Event) -> None:
    due = time.monotonic()
    while not over.is_set():
        at = time.monotonic()
        for who, what, value in _figures(world):
            series.setdefault((who, what), []).append((at, value))
        due += every
        over.wait(max(0.0, due - time.monotonic()))


def _figures(world: World) -> Iterator[tuple[str, str, float]]:
    """Yields all figures of this moment; a process that is being started again has none."""
    pids = {role.name: role.pid for role in (world.server, world.agent, world.hub)}
    readers = [("agent's reader", pid) for pid in world.agent.readers()]
    for who, pid in (*pids.items(), *readers):
        with suppress(OSError, IndexError, ValueError):
            yield from [(who, what, value) for what, value in _held(pid)]
    for role in world.roles:
        files = [file for file in role.state.rglob("*") if file.is_file()]
        yield role.name, "files", len(files)
        if role is not world.hub:
            with suppress(OSError):
                yield role.name, "database", sum(f.stat().st_size for f in files if ".db" in f.name)
    yield "all", "files", sum(1 for _ in (world.folder / "tmp").rglob("*"))
    [(size,)] = database().sql("SELECT pg_database_size(current_database())")
    yield "hub", "database", float(str(size))


def _held(pid: int) -> Iterator[tuple[str, float]]:
    held = list(Path(f"/proc/{pid}/fd").iterdir())
    yield "memory", resident_bytes(pid)
    yield "descriptors", len(held)
    yield "threads", len(list(Path(f"/proc/{pid}/task").iterdir()))
    yield "sockets", sum(_is_socket(one) for one in held)


def _is_socket(descriptor: Path) -> bool:
    with suppress(OSError):  # closed meanwhile
        return str(descriptor.readlink()).startswith("socket:")
    return False


def _judged(series: Series, days: float) -> int:
    """Prints the table; the exit code."""
    failed, is_full = 0, days * WARM_UP >= FULL_DAYS
    print(f"{'':<16}{'':<12}{'begin':>10}{'end':>10}{'a day':>10}{'growth':>10}{'noise':>10}")
    for (who, what), points in sorted(series.items()):
        found = trend(settled(points, WARM_UP))
        if found is None:
            print(f"{who:<16}{what:<12}no samples")
            failed += 1
            continue
        grows, scale = found.grows(FLOORS[what]), 1e6 if FLOORS[what] > 1e3 else 1
        grows, filling = grows and (is_full or what != "database"), grows and not is_full
        daily = found.growth / (days * (1 - WARM_UP))
        figures = (found.begin, found.begin + found.growth, daily, found.growth, found.noise)
        cells = "".join(f"{figure / scale:>10.3f}" for figure in figures)
        print(f"{who:<16}{what:<12}{cells}{'  GROWS' if grows else '  fills' * filling}")
        failed += grows
    print("memory and database in MB;", f"{failed} grow" if failed else "nothing grows")
    return int(failed > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long it takes")
    parser.add_argument("--times", type=int, default=TIMES, help="how fast the clock is")
    parser.add_argument("--json", type=Path, help="write all samples to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
