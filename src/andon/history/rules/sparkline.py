"""Draws a row of values as blocks, one character each."""

import math
from collections.abc import Iterable

BLOCKS = "▁▂▃▄▅▆▇█"
GAP = " "
FLAT = BLOCKS[3]


def sparkline(
    values: Iterable[float | None], low: float | None = 0.0, high: float | None = 100.0
) -> str:
    """Returns one block per value, a space if it is unknown; values outside the scale are
    clamped.

    An end of the scale that is None is taken from the values. Values that are all equal are
    drawn at the bottom if they are zero, else in the middle.
    """
    row = [None if value is None or math.isnan(value) else float(value) for value in values]
    finite = [value for value in row if value is not None and math.isfinite(value)]
    bottom = min(finite, default=0.0) if low is None else float(low)
    top = max(finite, default=0.0) if high is None else float(high)
    return "".join(GAP if value is None else _block(value, bottom, top) for value in row)


def _block(value: float, low: float, high: float) -> str:
    if value <= low:
        return BLOCKS[0] if low < high or value < low or value == 0 else FLAT
    if value >= high:
        return BLOCKS[-1]
    share = (value / 2 - low / 2) / (high / 2 - low / 2)  # halves: the whole span may overflow
    return BLOCKS[min(len(BLOCKS) - 1, int(share * len(BLOCKS)))]
