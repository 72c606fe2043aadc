"""Whether a lease still counts: when it ends, and whose lock is on its file."""

from collections.abc import Sequence

from msgspec import Struct

from andon.model.lease import Lease, LeaseKind

# When a lease ends: a duration that changes of the wall clock do not affect.

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
    """Returns the end that the file shows now, as a duration from now."""
    return LeaseEnd(shown, boot + (shown - wall), shown - wall)


def followed(end: LeaseEnd, shown: float, wall: float, boot: float) -> LeaseEnd:
    """Returns the same end, or a new one if the file's time was changed."""
    return end if shown == end.shown else begun(shown, wall, boot)


def to_show(end: LeaseEnd, wall: float, boot: float) -> float | None:
    """Returns the correct file time after the wall clock was set; None if it is already correct."""
    right = wall + end.deadline - boot
    return right if abs(right - end.shown) > DRIFT_SECONDS else None


END_MARKS_SECONDS = (300.0, 900.0, 3600.0)
"""So long before the end of a lease its user is told."""


def end_mark(left_seconds: float, length_seconds: float) -> float | None:
    """Returns the mark that was passed last, of those that lie inside the length of the lease.

    An end that is moved is a new length from then on: no mark of it has been passed yet.
    """
    passed = (mark for mark in END_MARKS_SECONDS if left_seconds <= mark < length_seconds)
    return next(passed, None)


# Whether the lock on a lease file belongs to its holder or to another user, and so counts.

ROOT = 0


class Locker(Struct, frozen=True):
    """A process that took a file's exclusive lock, according to the kernel."""

    pid: int
    uid: int | None = None  # None: no such process is visible


def are_strangers(lease: Lease, uid: int, lockers: Sequence[Locker]) -> bool:
    """Whether no lock belongs to the holder, to its user or to root, and that is certain.

    Anyone who may read a file may lock it. `uid` is the file's owner. If the kernel names no
    process the lock counts: its holder is in another pid namespace.
    """
    return bool(lockers) and all(_is_stranger(lease, uid, locker) for locker in lockers)


def _is_stranger(lease: Lease, uid: int, locker: Locker) -> bool:
    """Whether a locker is a stranger; the kernel names who took a lock, even if only a child
    that inherited it is still alive."""
    takers = {lease.owner.pid} if lease.work is None else {lease.owner.pid, lease.work.pid}
    if locker.pid <= 0 or locker.pid in takers:
        return False
    if locker.uid is None:
        # A lease over the network is taken by a server, whose pid the file does not hold.
        return lease.kind is not LeaseKind.NETWORK
    return locker.uid not in (ROOT, uid)
