"""One tool in one mode, in its own process: `python -m bench.worker TOOL MODE TICKS SECONDS`.

Every tool gets a fresh interpreter, because importing some of them patches the shared `pynvml`, and
so that the CPU time of this process and its children is only the tool's.
"""

import json
import sys
import time

from bench.figures import ONE_HERTZ, Series
from bench.tools import TOOLS, AbsentError, Tool

WARM_UP = 2  # the first tick starts everything; the second finds it running


def measure(tool: Tool, name: str, mode: str, ticks: int, limit_seconds: float) -> Series:
    """At most this many ticks; a slow tool's tight loop ends by time."""
    series = Series(name, mode)
    end: float | None = None
    before: tuple[float, float] | None = None
    for number, wall in enumerate(tool.ticks(1.0 if mode == ONE_HERTZ else 0.0), 1):
        now = tool.cpu_seconds(), tool.reader_cpu_seconds()
        if before is not None:
            series.wall.append(wall)
            series.cpu.append(now[0] - before[0])
            if (reader := tool.reader_wall_seconds()) is not None:
                series.reader.append(reader)
                series.reader_cpu.append(now[1] - before[1])
        if number >= WARM_UP:
            before = now
            end = end or time.monotonic() + limit_seconds
        if len(series.wall) >= ticks or (end and time.monotonic() > end and series.wall):
            break
    return series


def main(name: str, mode: str, ticks: str, limit_seconds: str) -> None:
    try:
        tool = TOOLS[name]()
        series = measure(tool, name, mode, int(ticks), float(limit_seconds))
        found = series.to_json() | {
            "fields": tool.fields(),
            "memory_bytes": tool.memory_bytes(),
            "devices": tool.devices(),
            "processes": tool.processes(),
        }
        tool.close()
    except AbsentError as absent:
        found = Series(name, mode, absent=str(absent)).to_json()
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
