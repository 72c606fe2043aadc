"""When a lease ends: a duration that changes of the wall clock do not affect."""

from msgspec import Struct
from msgspec.structs import replace

DRIFT_SECONDS = 2.0  # tolerance for a clock that is being adjusted


class LeaseEnd(Struct, frozen=True):
    """The end of a lease on the boot clock, which is never set.

    Others see it as the modification time of the lease file, in wall clock time. The owner moves
    the end by changing that time.
    """

    shown: float  # the file's time when last read
    deadline: float  # on the boot clock
    length_seconds: float  # since it was last moved


def begun(shown: float, wall: float, boot: float) -> LeaseEnd:
    """The end that the file shows now, as a duration from now."""
    return LeaseEnd(shown, boot + (shown - wall), shown - wall)


def followed(end: LeaseEnd, shown: float, wall: float, boot: float) -> LeaseEnd:
    """Returns the same end, or a new one if the file's time was changed."""
    return end if shown == end.shown else begun(shown, wall, boot)


def to_show(end: LeaseEnd, wall: float, boot: float) -> float | None:
    """The correct file time after the wall clock was set; None where it is already correct."""
    right = wall + end.deadline - boot
    return right if abs(right - end.shown) > DRIFT_SECONDS else None


def showing(end: LeaseEnd, shown: float) -> LeaseEnd:
    """Returns the same end, with the file's new time."""
    return replace(end, shown=shown)


def left_seconds(end: LeaseEnd, boot: float) -> float:
    return end.deadline - boot
