"""Graphs of text: two values a column and four levels a row in braille, or plain ASCII."""

import math
from collections.abc import Sequence

_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)  # 0 to 4 dots from the bottom, in the left half of a cell
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
_CELLS = tuple(
    tuple(chr(0x2800 | left | right) if left or right else " " for right in _RIGHT)
    for left in _LEFT
)
_LEVELS = 4
_ASCII = " .:|"  # empty, a third, two thirds, full

Values = Sequence[float | None]


def values_across(width: int, ascii_only: bool) -> int:
    """How many values a graph of this width shows."""
    return width if ascii_only else 2 * width


def graph(
    values: Values, width: int, height: int, top: float, ascii_only: bool = False
) -> list[str]:
    """Rows from top to bottom, each exactly `width` wide; the newest value is at the right.

    An unknown value leaves a gap, and a known one always shows: 0 is the lowest dot.
    """
    if width < 1 or height < 1:
        return []
    across = values_across(width, ascii_only)
    shown = [None] * (across - len(values)) + list(values[-across:] if across else ())
    steps = 3 if ascii_only else _LEVELS
    levels = [_level(value, top, height * steps) for value in shown]
    draw = _ascii_row if ascii_only else _braille_row
    return [draw(levels, (height - 1 - row) * steps) for row in range(height)]


def _level(value: float | None, top: float, most: int) -> int:
    if value is None or not math.isfinite(value) or top <= 0:
        return 0
    return min(most, max(1, round(value / top * most)))


def _braille_row(levels: Sequence[int], below: int) -> str:
    most = below + _LEVELS
    dots = [_LEVELS if level >= most else level - below if level > below else 0 for level in levels]
    return "".join([_CELLS[left][right] for left, right in zip(dots[::2], dots[1::2], strict=True)])


def _ascii_row(levels: Sequence[int], below: int) -> str:
    return "".join(_ASCII[min(3, max(0, level - below))] for level in levels)
