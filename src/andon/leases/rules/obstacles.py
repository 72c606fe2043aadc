"""Why a device is not available: every possible reason, with a sentence that names who and what."""

from enum import StrEnum

from msgspec import Struct


class ObstacleKind(StrEnum):
    """What is in the way, in one word."""

    MASKED = "masked"  # hidden from this process
    NOT_REQUESTED = "not_requested"  # not among the devices requested
    PARTITIONED = "partitioned"  # a board cut into instances
    TOO_SMALL = "too_small"  # its total memory is too small
    LOST = "lost"
    STALE = "stale"
    UNKNOWN = "unknown"  # a reading is missing: unknown is not free
    ECC = "ecc"
    BROKEN = "broken"  # it reported an error that means it is broken
    UNATTRIBUTED_MEMORY = "unattributed_memory"  # memory used by no visible process
    CORDONED = "cordoned"
    LEASED = "leased"
    ORPHANED = "orphaned"
    UNREADABLE = "unreadable"
    UNLEASED_PROCESS = "unleased_process"  # a process without a lease
    BUSY = "busy"  # busy, with no visible process
    FULL = "full"
    RESERVED = "reserved"  # for another user ahead in the queue


NEVER = frozenset(
    {
        ObstacleKind.MASKED,
        ObstacleKind.NOT_REQUESTED,
        ObstacleKind.PARTITIONED,
        ObstacleKind.TOO_SMALL,
    }
)
"""Nothing that happens on the device removes these."""

HEALTH = frozenset(
    {
        ObstacleKind.LOST,
        ObstacleKind.STALE,
        ObstacleKind.UNKNOWN,
        ObstacleKind.ECC,
        ObstacleKind.BROKEN,
        ObstacleKind.UNATTRIBUTED_MEMORY,
        ObstacleKind.CORDONED,
    }
)
"""These end when the device is repaired, not when its work ends."""


class Obstacle(Struct, frozen=True):
    """One reason; `until` is when it is expected to end, `by` the user behind it."""

    kind: ObstacleKind
    words: str
    until: float | None = None
    by: str | None = None
    lease: str | None = None
