"""The cost of a tool's samples, and their summary."""

import statistics
from collections.abc import Sequence
from typing import Any, Self

from msgspec import Struct, field, to_builtins

ONE_HERTZ = "1hz"
TIGHT = "tight"
MODES = (ONE_HERTZ, TIGHT)


class Spread(Struct, frozen=True):
    """The typical sample, a bad one, and the mean, which determines the cost per day."""

    median_seconds: float
    p99_seconds: float
    mean_seconds: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Self:
        ordered = sorted(seconds)
        last = len(ordered) - 1
        return cls(
            statistics.median(ordered),
            ordered[min(last, round(0.99 * last))],
            statistics.fmean(ordered),
        )


class Series(Struct, frozen=True):
    """One tool in one mode; `reader` and `reader_cpu` are andon's reader alone."""

    tool: str
    mode: str
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    reader: list[float] = field(default_factory=list)
    reader_cpu: list[float] = field(default_factory=list)
    fields: list[str] = field(default_factory=list)
    memory_bytes: int = 0
    devices: int = 0
    processes: int = 0
    absent: str = ""

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = to_builtins(self)
        return found

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(**value)


class Place(Struct, frozen=True):
    """Where a table's samples were taken."""

    name: str  # "stand-in" or the device's name
    real: bool
    devices: int
    processes: int

    def __str__(self) -> str:
        return f"{self.name}: {self.devices} devices, {self.processes} processes"


class Combo(Struct, frozen=True):
    """Every tool and mode that was measured in one place."""

    place: Place
    series: tuple[Series, ...]

    def find(self, tool: str, mode: str) -> Series | None:
        """A measured series; None if the tool was left out or is missing."""
        for series in self.series:
            if (series.tool, series.mode) == (tool, mode) and series.wall:
                return series
        return None
