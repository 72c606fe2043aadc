"""When the next tick is due for sessions that each have an interval of their own."""

from collections.abc import Iterable


def slot(now: float, interval_seconds: float) -> int:
    """The number of the interval that `now` falls into.

    Slots are counted from the clock's zero and not from the session's start, so that sessions of
    one interval, or of multiples of it, share their ticks whenever they began.
    """
    return int((now + 1e-6) // interval_seconds)


def next_due(now: float, interval_seconds: float) -> float:
    """When the slot after this one begins."""
    return (slot(now, interval_seconds) + 1) * interval_seconds


def wake_at(now: float, intervals: Iterable[float]) -> float | None:
    """The earliest due time of any session, or None where there is no session."""
    return min((next_due(now, interval) for interval in intervals), default=None)


def retry_seconds(failures: int, first: float = 0.5, most: float = 30.0) -> float:
    """How long to wait after so many failures in a row: twice as long each time, up to an end."""
    return most if failures > 16 else min(most, first * 2.0 ** max(0, failures - 1))


def missed(last_slot: int, this_slot: int) -> int:
    """How many ticks a session did not get between two that it got."""
    return max(0, this_slot - last_slot - 1)
