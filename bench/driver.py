"""The driver's share of the reader's cost: `python -m bench.driver SECONDS`.

Makes the reader's calls at the same rate, each timed with this thread's CPU clock. Separate from
the server, because the timing itself would count as the server's work.
"""

import json
import sys
import time
from typing import Any


class Timed:
    """A vendor's library with every call counted and timed."""

    def __init__(self, library: Any) -> None:
        self.calls = 0
        self.cpu_ns = self.wall_ns = 0
        self._library = library

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._library, name)

        def timed(*arguments: Any) -> Any:
            cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
            try:
                return call(*arguments)
            finally:
                self.wall_ns += time.perf_counter_ns() - wall
                self.cpu_ns += time.thread_time_ns() - cpu
                self.calls += 1

        timed.__name__ = name
        self.__dict__[name] = timed
        return timed


def measure(seconds: float) -> dict[str, float]:
    """Per tick of all devices; the first tick, which opens everything, is not counted."""
    import pynvml

    from andon.registry import BACKENDS, load

    pynvml._LoadNvmlLibrary()
    library = pynvml.nvmlLib = Timed(pynvml.nvmlLib)
    backend = load(BACKENDS, "nvidia")()
    cards = backend.open()
    for card in cards:
        backend.describe(card)
        backend.read(card, time.time(), True)
    library.calls = library.cpu_ns = library.wall_ns = 0
    ticks, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(1.0 - time.monotonic() % 1.0)
        for card in cards:
            backend.read(card, time.time(), True)
        ticks += 1
    return {
        "devices": len(cards),
        "ticks": ticks,
        "calls_per_tick": library.calls / ticks,
        "cpu_seconds_per_tick": library.cpu_ns / ticks / 1e9,
        "wall_seconds_per_tick": library.wall_ns / ticks / 1e9,
    }


if __name__ == "__main__":
    print(json.dumps(measure(float(sys.argv[1]))))
