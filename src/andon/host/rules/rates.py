"""Rates from counters: what passed between two readings; unknown rather than wrong.

A counter may wrap, start again or vanish, and a first reading has nothing to be compared with.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

FIRST: Final = "needs two readings: available from the next one on"
NO_TIME: Final = "no time has passed since the last reading"
STARTED_AGAIN: Final = "a counter started again"
WRAPPED: Final = "the counter wrapped or started again"
CHANGED: Final = "what is counted changed"
NARROW: Final = 1 << 32
"""A counter that was never higher may have only 32 bits: it wraps."""


class Counters(Struct, frozen=True):
    """Counters of several devices at one time, each with a number per direction."""

    at: float
    values: Mapping[str, tuple[int, int]]


Rates = tuple[int, int]


def rates_between(before: Counters | None, after: Counters) -> Rates | str:
    """Returns the rates in both directions in units per second, summed over all devices; or why
    they are unknown."""
    if before is None:
        return FIRST
    seconds = after.at - before.at
    if seconds <= 0:
        return NO_TIME
    if before.values.keys() != after.values.keys():
        return CHANGED
    sums = [0, 0]
    for name, now in after.values.items():
        for way, (count, last) in enumerate(zip(now, before.values[name], strict=True)):
            if count < last:
                return STARTED_AGAIN
            sums[way] += count - last
    return round(sums[0] / seconds), round(sums[1] / seconds)


def steady_rate(before: int, after: int, seconds: float) -> int | str:
    """Returns the rate of a counter that never wraps; or why it is unknown."""
    if seconds <= 0:
        return NO_TIME
    return STARTED_AGAIN if after < before else round((after - before) / seconds)


def wrapping_rate(before: int, after: int, seconds: float, glimpse: float) -> int | str:
    """Returns the rate of a counter that may have wrapped at 32 bits, even more than once; or why
    it is unknown.

    `glimpse` is its rate over an interval too short for that, and shows how often it wrapped. If
    little passed in that interval, the answer is the lowest possible one.
    """
    if seconds <= 0:
        return NO_TIME
    if max(before, after) >= NARROW:  # it has more bits, and never wraps
        return steady_rate(before, after, seconds)
    passed = (after - before) % NARROW
    expected = glimpse * seconds
    if after < before and expected < passed / 2:  # too little for a wrap
        return WRAPPED
    wraps = max(0, round((expected - passed) / NARROW))
    return round((passed + wraps * NARROW) / seconds)
