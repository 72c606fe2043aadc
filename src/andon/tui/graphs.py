"""Graphs as text: two values per column and four levels per row in braille, or plain ASCII."""

import math
from collections.abc import Sequence
from functools import lru_cache

_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)  # 0 to 4 dots from the bottom, in the left half of a cell
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
_CELLS = tuple(
    tuple(chr(0x2800 | left | right) if left or right else " " for right in _RIGHT)
    for left in _LEFT
)
_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))  # of each half, from the bottom
_LEVELS = 4
_ASCII = " .:|"  # empty, a third, two thirds, full
_ASCII_LINE = "_-'"  # a line in the lower, middle and upper third of a row

Values = Sequence[float | None]


def values_across(width: int, ascii_only: bool) -> int:
    """Returns how many values a graph of this width shows."""
    return width if ascii_only else 2 * width


def graph(
    values: Values, width: int, height: int, top: float, ascii_only: bool = False
) -> list[str]:
    """Returns rows from top to bottom, each exactly `width` wide; the newest value is at the right.

    An unknown value leaves a gap, and a known one always shows: 0 is the lowest dot.
    """
    if width < 1 or height < 1:
        return []
    across = values_across(width, ascii_only)
    shown = [None] * (across - len(values)) + list(values[-across:] if across else ())
    steps = 3 if ascii_only else _LEVELS
    levels = _levels(shown, top, height * steps)
    if ascii_only:
        return [_ascii_row(levels, (height - 1 - row) * steps) for row in range(height)]
    columns = [
        _column(left, right, height) for left, right in zip(levels[::2], levels[1::2], strict=True)
    ]
    return ["".join(row) for row in zip(*columns, strict=True)]


def line(
    values: Values, width: int, height: int, top: float, ascii_only: bool = False
) -> list[str]:
    """Returns the graph as a line, as filled columns of several rows would be a wall of dots."""
    if width < 1 or height < 1:
        return []
    across = values_across(width, ascii_only)
    shown = [None] * (across - len(values)) + list(values[-across:] if across else ())
    steps = 3 if ascii_only else _LEVELS
    runs = _runs(_levels(shown, top, height * steps))
    if ascii_only:
        floors = [(height - 1 - row) * steps for row in range(height)]
        return ["".join(_ascii_cell(run, floor) for run in runs) for floor in floors]
    columns = [
        _line_column(left, right, height) for left, right in zip(runs[::2], runs[1::2], strict=True)
    ]
    return ["".join(row) for row in zip(*columns, strict=True)]


def _runs(levels: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the lowest and highest dot of each value, which connects to the one before it."""
    found, before = [], 0
    for level in levels:
        if not level or not before:
            found.append((level, level))
        else:
            found.append((min(level, before + 1), max(level, before - 1)))
        before = level
    return found


@lru_cache(maxsize=4096)
def _line_column(left: tuple[int, int], right: tuple[int, int], height: int) -> tuple[str, ...]:
    cells = []
    for row in range(height):
        floor = (height - 1 - row) * _LEVELS
        bits = 0
        for (low, high), dots in zip((left, right), _DOTS, strict=True):
            if high:
                bits |= sum(dot for n, dot in enumerate(dots) if low <= floor + n + 1 <= high)
        cells.append(chr(0x2800 | bits) if bits else " ")
    return tuple(cells)


def _ascii_cell(run: tuple[int, int], floor: int) -> str:
    low, high = max(run[0], floor + 1), min(run[1], floor + 3)
    if not run[1] or low > high:
        return " "
    return "|" if high > low else _ASCII_LINE[low - floor - 1]


def _levels(values: Values, top: float, most: int) -> list[int]:
    """Returns the levels, in one loop without calls: every picture has hundreds of values."""
    if top <= 0:
        return [0] * len(values)
    scale, isfinite = most / top, math.isfinite
    return [
        0 if value is None or not isfinite(value) else min(most, max(1, round(value * scale)))
        for value in values
    ]


@lru_cache(maxsize=4096)  # most of a graph is what it was a second ago
def _column(left: int, right: int, height: int) -> tuple[str, ...]:
    """Returns the cells of two values beside each other, from top to bottom."""
    floors = [(height - 1 - row) * _LEVELS for row in range(height)]
    return tuple(_CELLS[_dots(left, floor)][_dots(right, floor)] for floor in floors)


def _dots(level: int, below: int) -> int:
    return min(_LEVELS, max(0, level - below))


def _ascii_row(levels: Sequence[int], below: int) -> str:
    return "".join(_ASCII[min(3, max(0, level - below))] for level in levels)
