"""When the next sample is due, how long to wait for a driver, and when its reader is restarted."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from andon.failures.rules.backoff import BackOff, doubled_seconds

# When the next sample is due for sessions with different intervals.


def slot(now: float, interval_seconds: float) -> int:
    """Returns the number of the interval that `now` falls into.

    Slots are counted from the clock's zero and not from the session's start, so that sessions with
    the same interval, or multiples of it, share their samples whenever they began.
    """
    return int((now + 1e-6) // interval_seconds)


def next_due(now: float, interval_seconds: float) -> float:
    """Returns when the slot after this one begins."""
    return (slot(now, interval_seconds) + 1) * interval_seconds


def wake_at(now: float, intervals: Iterable[float]) -> float | None:
    """Returns the earliest due time of any session, or None if there is no session."""
    return min((next_due(now, interval) for interval in intervals), default=None)


def missed(last_slot: int, this_slot: int) -> int:
    """Returns how many samples a session missed between two that it received."""
    return max(0, this_slot - last_slot - 1)


# How long to wait for a driver, and when its reader is abandoned or restarted.

HELLO_SECONDS = 20.0  # starting an interpreter on a loaded machine is not the driver's fault
MOST_STARVED_SECONDS = 60.0  # that are added where a reader got no processor
OPENING_DEADLINES = 2.0  # initialising a driver is slower than reading from it
ABANDON_SECONDS = 10.0
MOST_READERS = 2
EXTRA_READER_SECONDS = 600.0
MOST_EXTRA_READERS = 2
STEADY_SECONDS = 30.0  # a reader that ran this long counts as stable
BACK_OFF = BackOff()  # no wait after a first failure, then 1, 2, 4 … 60 seconds
RENEW_SECONDS = 60.0  # a lost card may be back, which only a new driver session can see


class ReaderPhase(StrEnum):
    """How far a reader has started up."""

    STARTING = "starting"  # nothing received from it yet
    OPENING = "opening"  # it runs, but the vendor's library has not answered
    OPEN = "open"


class ReaderLife(Struct, frozen=True):
    """State of the current reader; times are from a monotonic clock."""

    phase: ReaderPhase
    since: float
    """When this phase began."""
    heard: float
    """When anything was last received from it."""


class Attempts(Struct, frozen=True):
    """The failures and abandoned readers of a vendor so far."""

    failures: int = 0
    """Consecutive readers that ended or were abandoned before they counted as stable."""
    last_failure: float = 0.0
    stuck: int = 0
    """Abandoned readers that the kernel has not ended yet."""
    last_abandoned: float = 0.0


def waits_until(life: ReaderLife, deadline_seconds: float, starved_seconds: float = 0.0) -> float:
    """Returns until when a sample waits for a reader that is not open yet. `starved_seconds`:
    how long it has waited for a processor in this phase, which is not the driver's fault either."""
    if life.phase is ReaderPhase.STARTING:
        return life.since + HELLO_SECONDS + allowed_seconds(starved_seconds)
    return life.since + OPENING_DEADLINES * deadline_seconds + allowed_seconds(starved_seconds)


def allowed_seconds(starved_seconds: float) -> float:
    """Returns the time by which a deadline moves for a reader that got no processor."""
    return min(starved_seconds, MOST_STARVED_SECONDS)


def is_stuck(
    life: ReaderLife, outstanding_since: float | None, now: float, starved_seconds: float = 0.0
) -> bool:
    """Whether to abandon a reader: it was asked long ago and has sent nothing since."""
    if life.phase is ReaderPhase.STARTING:  # no driver has been called yet
        return now - life.since >= HELLO_SECONDS + allowed_seconds(starved_seconds)
    if life.phase is ReaderPhase.OPENING:
        return now - life.since >= ABANDON_SECONDS + allowed_seconds(starved_seconds)
    if outstanding_since is None:
        return False
    return now - max(outstanding_since, life.heard) >= ABANDON_SECONDS


def may_start(attempts: Attempts, now: float) -> bool:
    """Whether another reader may be started now."""
    if attempts.stuck >= MOST_READERS and not _may_start_beyond_limit(attempts, now):
        return False
    return now - attempts.last_failure >= BACK_OFF.seconds(attempts.failures)


def failed(attempts: Attempts, lived_seconds: float, now: float) -> Attempts:
    """Returns the state after a reader ended; a stable one resets the count."""
    failures = 1 if lived_seconds >= STEADY_SECONDS else attempts.failures + 1
    return Attempts(failures, now, attempts.stuck, attempts.last_abandoned)


def abandoned(attempts: Attempts, now: float) -> Attempts:
    """Returns the state after a stuck reader was abandoned."""
    return Attempts(attempts.failures + 1, now, attempts.stuck + 1, now)


def _may_start_beyond_limit(attempts: Attempts, now: float) -> bool:
    """Whether to start a reader beyond the limit: a third ten minutes after two got stuck, a fourth
    twenty minutes later, then no more."""
    more = attempts.stuck - MOST_READERS
    waited = now - attempts.last_abandoned
    return more < MOST_EXTRA_READERS and waited >= EXTRA_READER_SECONDS * 2.0**more


def returned(attempts: Attempts, stuck: int) -> Attempts:
    """Returns the state with the number of abandoned readers that the kernel has not ended yet."""
    return Attempts(attempts.failures, attempts.last_failure, stuck, attempts.last_abandoned)


def renew_after_seconds(renewals: int) -> float:
    """Returns how long a card stays lost before a new reader is started to look for it."""
    return doubled_seconds(renewals, RENEW_SECONDS, EXTRA_READER_SECONDS)
