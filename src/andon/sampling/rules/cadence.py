"""When the next sample is due for sessions with different intervals."""

from collections.abc import Iterable


def slot(now: float, interval_seconds: float) -> int:
    """The number of the interval that `now` falls into.

    Slots are counted from the clock's zero and not from the session's start, so that sessions with
    the same interval, or multiples of it, share their samples whenever they began.
    """
    return int((now + 1e-6) // interval_seconds)


def next_due(now: float, interval_seconds: float) -> float:
    """When the slot after this one begins."""
    return (slot(now, interval_seconds) + 1) * interval_seconds


def wake_at(now: float, intervals: Iterable[float]) -> float | None:
    """The earliest due time of any session, or None if there is no session."""
    return min((next_due(now, interval) for interval in intervals), default=None)


def missed(last_slot: int, this_slot: int) -> int:
    """How many samples a session missed between two that it received."""
    return max(0, this_slot - last_slot - 1)
