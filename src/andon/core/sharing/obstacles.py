"""Why a device is not given out: every reason there is, in words that name who and what."""

from dataclasses import dataclass
from enum import StrEnum


class ObstacleKind(StrEnum):
    """What stands in the way, one word each."""

    MASKED = "masked"  # hidden from this process
    NOT_REQUESTED = "not_requested"  # the request does not want this one
    PARTITIONED = "partitioned"  # a board cut into instances
    TOO_SMALL = "too_small"  # it never had that much memory
    LOST = "lost"
    STALE = "stale"
    UNKNOWN = "unknown"  # a reading is missing: unknown is not free
    ECC = "ecc"
    BROKEN = "broken"  # it reported an error that means so
    UNATTRIBUTED_MEMORY = "unattributed_memory"  # memory that no process explains
    CORDONED = "cordoned"
    LEASED = "leased"
    ORPHANED = "orphaned"
    UNREADABLE = "unreadable"
    UNLEASED_PROCESS = "unleased_process"  # a process without a lease
    BUSY = "busy"  # busy, and nobody is seen
    FULL = "full"
    RESERVED = "reserved"  # for somebody who waits in front


NEVER = frozenset(
    {
        ObstacleKind.MASKED,
        ObstacleKind.NOT_REQUESTED,
        ObstacleKind.PARTITIONED,
        ObstacleKind.TOO_SMALL,
    }
)
"""Nothing that happens on the device takes these away."""

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
"""These go when the device is cured, and not when its work ends."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One reason; `until` is when it is expected to go."""

    kind: ObstacleKind
    words: str
    until: float | None = None
