"""Figures of a hub with their limits, as lines of a table and as JSON."""

import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct, to_builtins


class FleetFigure(Struct, frozen=True):
    """One measured value; without a limit it is there to explain others."""

    name: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None
    more: str = ""

    @property
    def kept(self) -> bool:
        return not (
            (self.most is not None and self.value > self.most)
            or (self.least is not None and self.value < self.least)
        )

    def __str__(self) -> str:
        shown = f"{self.value:,.0f}" if abs(self.value) >= 100 else f"{self.value:.3g}"
        limit = "" if self.most is None else f"at most {self.most:g}"
        limit = limit if self.least is None else f"at least {self.least:g}"
        verdict = "" if not limit else "kept" if self.kept else "MISSED"
        words = f"{self.name:<42} {shown:>8} {self.unit:<8} {limit:<15} {verdict:<7} {self.more}"
        return words.rstrip()


Tell = Callable[[Iterable[FleetFigure]], None]
"""Takes figures as soon as they are known."""


def write(file: Path, figures: Sequence[FleetFigure]) -> None:
    """Keeps a run, with the machine that it was on and how busy that was."""
    cpu = [one for one in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in one]
    record = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": platform.machine(),
        "cpu": cpu[0].partition(": ")[2] if cpu else None,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "figures": [to_builtins(one) for one in figures],
    }
    file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
