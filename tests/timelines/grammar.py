"""The text tables as values: timelines, their rows, and readings that move."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct

FOLDER = Path(__file__).parent
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(d|h|m|s)")
_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}


def seconds(text: str) -> float:
    """`90s`, `1h30m`, `-3h`, `+40s`."""
    sign = -1.0 if text.startswith("-") else 1.0
    parts = _DURATION.findall(text.lstrip("+-"))
    if not parts or "".join(n + u for n, u in parts) != text.lstrip("+-"):
        raise ValueError(f"{text!r} is not a duration")
    return sign * sum(float(number) * _UNITS[unit] for number, unit in parts)


class DeviceLine(Struct, frozen=True):
    """One device as its line describes it."""

    label: int
    name: str
    slowdown: int | None = 89
    memory_gib: float = 141
    power_limit: float | None = 700
    clock: int | None = 1980
    link: tuple[int | None, int | None] = (None, None)  # the card's generation and lanes
    slot: tuple[int | None, int | None] = (None, None)
    vendor: str = "nvidia"
    parent: int | None = None
    absent: bool = False


class Row(Struct, frozen=True):
    """One row of a table; `number` is its line in the file."""

    number: int
    at: float
    readings: tuple[str, ...]
    expect: str
    notices: str
    lamp: str


@dataclass
class Timeline:
    """One story."""

    file: str
    title: str
    because: str = ""
    prometheus: str = ""  # why its rules go otherwise, if they do
    every: float = 1.0
    settings: dict[str, float | str] = field(default_factory=dict)
    ignore: frozenset[str] = frozenset()
    devices: list[DeviceLine] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.file}: {self.title}"


def timelines() -> list[Timeline]:
    """Every timeline of every file."""
    return [one for path in sorted(FOLDER.glob("*.txt")) for one in parse(path)]


def parse(path: Path) -> Iterator[Timeline]:
    """The timelines of one file."""
    found: Timeline | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("=="):
            if found is not None:
                yield _finished(found)
            found = Timeline(path.stem, line[2:].strip())
        elif found is None:
            raise ValueError(f"{path.name}:{number}: there is no timeline yet")
        else:
            _take(found, number, line)
    if found is not None:
        yield _finished(found)


def _finished(timeline: Timeline) -> Timeline:
    timeline.devices = timeline.devices or [DeviceLine(0, "H200")]
    return timeline


def _take(timeline: Timeline, number: int, line: str) -> None:
    if "|" in line:
        cells = [cell.strip() for cell in line.split("|")]
        if cells[0] != "time":
            cells += ["-"] * (5 - len(cells))
            items = tuple(item.strip() for item in cells[1].split(";") if item.strip())
            timeline.rows.append(Row(number, seconds(cells[0]), items, *cells[2:5]))
        return
    key, _, text = line.partition(":")
    text = text.strip()
    if key == "because":
        timeline.because = text
    elif key == "prometheus":
        timeline.prometheus = text
    elif key == "every":
        timeline.every = seconds(text)
    elif key == "set":
        timeline.settings = settings(text)
    elif key == "ignore":
        timeline.ignore = frozenset(name.strip() for name in text.split(","))
    elif key.startswith("device"):
        timeline.devices += [_device(label, text) for label in labels(key.split()[1])]
    else:
        raise ValueError(f"line {number}: {line!r}")


def settings(text: str) -> dict[str, float | str]:
    """`thermal_celsius=75 idle=off`."""
    pairs = (word.split("=") for word in text.split())
    return {name: value if value == "off" else float(value) for name, value in pairs}


def labels(text: str) -> list[int]:
    """`3`, or `0-7`."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def _device(label: int, text: str) -> DeviceLine:
    name, *words = (part.strip() for part in text.split(","))
    values: dict[str, Any] = {}
    for word in words:
        if word == "absent":
            values["absent"] = True
            continue
        key, _, value = word.rpartition(" ")
        values.update(_DEVICE_WORDS[key](value))
    return DeviceLine(label, name, **values)


def _known(value: str) -> float | None:
    return None if value == "unknown" else float(value)


def _link(value: str) -> tuple[int, int]:
    """`5x16`: generation and lanes."""
    generation, _, lanes = value.partition("x")
    return int(generation), int(lanes)


_DEVICE_WORDS: dict[str, Callable[[str], dict[str, Any]]] = {
    "slowdown": lambda v: {"slowdown": None if v == "unknown" else int(v)},
    "memory": lambda v: {"memory_gib": float(v)},
    "power limit": lambda v: {"power_limit": _known(v)},
    "clock": lambda v: {"clock": None if v == "unknown" else int(v)},
    "link": lambda v: {"link": _link(v)},
    "slot": lambda v: {"slot": _link(v)},
    "vendor": lambda v: {"vendor": v},
    "part of": lambda v: {"parent": int(v)},
}


Reading = Callable[[float], Any]
"""What a reading is, so many seconds after its row."""


def moving(text: str, read: Callable[[str], Any]) -> Reading:
    """A value that stays, moves in a straight line (`85..95/10m`) or in turns (`79/1s~81/1s`)."""
    if "~" in text:
        phases = [part.rsplit("/", 1) for part in text.split("~")]
        return _turns([(read(value), seconds(lasts)) for value, lasts in phases])
    if ".." in text:
        span, _, lasts = text.rpartition("/")
        first, _, last = span.partition("..")
        unit = last.lstrip("-.0123456789")
        return _line(read(first if first.endswith(unit) else first + unit), read(last),
                     seconds(lasts))  # fmt: skip
    value = read(text)
    return lambda after: value


def _turns(phases: list[tuple[Any, float]]) -> Reading:
    whole = sum(lasts for _, lasts in phases)

    def at(after: float) -> Any:
        place = after % whole
        for value, lasts in phases:
            if place < lasts:
                return value
            place -= lasts
        return phases[-1][0]

    return at


def _line(first: float, last: float, lasts: float) -> Reading:
    return lambda after: first + (last - first) * min(1.0, after / lasts)
