"""How long a driver is waited for, and when its reader is given up or tried again."""

from dataclasses import dataclass
from enum import StrEnum

HELLO_SECONDS = 5.0  # starting an interpreter on a loaded machine is not the driver's fault
OPENING_DEADLINES = 2.0  # initialising a driver is slower than reading from it
ABANDON_SECONDS = 10.0
MOST_READERS = 2
HOPELESS_SECONDS = 600.0
MOST_HOPES = 2
STEADY_SECONDS = 30.0  # a reader that lived this long has proved itself
BACK_OFF_LIMIT_SECONDS = 60.0
RENEW_SECONDS = 60.0  # a lost card may be back, which only a fresh driver session can see


class ReaderPhase(StrEnum):
    """How far a reader has come."""

    STARTING = "starting"  # no word from it yet
    OPENING = "opening"  # it runs, and the vendor's library has not answered
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Life:
    """What is known of the reader in use; times are on a clock that only moves forward."""

    phase: ReaderPhase
    since: float
    """When this phase began."""
    heard: float
    """When anything was last heard from it."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """What has become of a vendor's readers."""

    failures: int = 0
    """Readers in a row that ended or were given up without having proved themselves."""
    last_failure: float = 0.0
    stuck: int = 0
    """Abandoned readers that the kernel has not let go of."""
    last_abandoned: float = 0.0


def waits_until(life: Life, deadline_seconds: float) -> float:
    """How long a tick waits for a reader that is not open yet."""
    if life.phase is ReaderPhase.STARTING:
        return life.since + HELLO_SECONDS
    return life.since + OPENING_DEADLINES * deadline_seconds


def is_stuck(life: Life, outstanding_since: float | None, now: float) -> bool:
    """Whether a reader is to be abandoned: asked long ago, and not a word since."""
    if life.phase is not ReaderPhase.OPEN:
        return now - life.since >= ABANDON_SECONDS
    if outstanding_since is None:
        return False
    return now - max(outstanding_since, life.heard) >= ABANDON_SECONDS


def back_off_seconds(failures: int) -> float:
    """Nothing, then at once after a first failure, then 1, 2, 4 … 60 seconds."""
    if failures <= 1:
        return 0.0
    return min(BACK_OFF_LIMIT_SECONDS, 2.0 ** min(failures - 2, 10))


def may_start(attempts: Attempts, now: float) -> bool:
    """Whether another reader may be tried now."""
    if attempts.stuck >= MOST_READERS and not _may_hope(attempts, now):
        return False
    return now - attempts.last_failure >= back_off_seconds(attempts.failures)


def failed(attempts: Attempts, lived_seconds: float, now: float) -> Attempts:
    """After a reader ended; one that had proved itself starts the count afresh."""
    failures = 1 if lived_seconds >= STEADY_SECONDS else attempts.failures + 1
    return Attempts(failures, now, attempts.stuck, attempts.last_abandoned)


def abandoned(attempts: Attempts, now: float) -> Attempts:
    """After a stuck reader was given up."""
    return Attempts(attempts.failures + 1, now, attempts.stuck + 1, now)


def _may_hope(attempts: Attempts, now: float) -> bool:
    """Ten minutes after two got stuck a third is tried, twenty later a fourth, and no more."""
    more = attempts.stuck - MOST_READERS
    waited = now - attempts.last_abandoned
    return more < MOST_HOPES and waited >= HOPELESS_SECONDS * 2.0**more


def returned(attempts: Attempts, stuck: int) -> Attempts:
    """After a look at how many abandoned readers the kernel still holds."""
    return Attempts(attempts.failures, attempts.last_failure, stuck, attempts.last_abandoned)


def renew_after_seconds(renewals: int) -> float:
    """How long a card stays lost before the vendor's reader is replaced in the hope of it."""
    return min(HOPELESS_SECONDS, RENEW_SECONDS * 2.0 ** min(renewals, 10))
