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


def missed(last_slot: int, this_slot: int) -> int:
    """How many ticks a session did not get between two that it got."""
    return max(0, this_slot - last_slot - 1)
