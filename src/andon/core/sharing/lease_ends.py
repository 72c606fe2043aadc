"""When a lease ends: a duration that no step of the wall clock makes shorter or longer."""

from dataclasses import dataclass, replace

DRIFT_SECONDS = 2.0  # what a clock that is being adjusted may differ by


@dataclass(frozen=True, slots=True)
class LeaseEnd:
    """The end of a lease, on the clock that counts from the boot and is never set.

    Others see it as the time of the lease's file, in wall clock time. Its owner moves the end by
    changing that time.
    """

    shown: float  # the file's time, as it was last seen
    deadline: float  # on the boot clock
    length_seconds: float  # since it was last moved


def begun(shown: float, wall: float, boot: float) -> LeaseEnd:
    """The end that a file shows now, as a duration from now."""
    return LeaseEnd(shown, boot + (shown - wall), shown - wall)


def followed(end: LeaseEnd, shown: float, wall: float, boot: float) -> LeaseEnd:
    """The same end, or a new one from now on where the file's time was changed."""
    return end if shown == end.shown else begun(shown, wall, boot)


def to_show(end: LeaseEnd, wall: float, boot: float) -> float | None:
    """The file's time after the wall clock was set; None where it is right."""
    right = wall + end.deadline - boot
    return right if abs(right - end.shown) > DRIFT_SECONDS else None


def showing(end: LeaseEnd, shown: float) -> LeaseEnd:
    """The same end, with the file's time that it has been given."""
    return replace(end, shown=shown)


def left_seconds(end: LeaseEnd, boot: float) -> float:
    return end.deadline - boot
