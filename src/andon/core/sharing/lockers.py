"""Whether the lock on a lease's file is its holder's, or another user's that must not count."""

from collections.abc import Sequence
from dataclasses import dataclass

from andon.model.work import Lease, LeaseKind

ROOT = 0


@dataclass(frozen=True, slots=True)
class Locker:
    """A process that took the exclusive lock of a file, as the kernel names it."""

    pid: int
    uid: int | None = None  # None: no process of this number can be seen


def are_strangers(lease: Lease, uid: int, lockers: Sequence[Locker]) -> bool:
    """Whether it is proved that no lock is the holder's, that of its user, or root's.

    Anyone who may read a file may lock it. `uid` is the file's owner. Where the kernel names no
    process the lock counts: its holder is in another pid namespace.
    """
    return bool(lockers) and all(_is_stranger(lease, uid, locker) for locker in lockers)


def _is_stranger(lease: Lease, uid: int, locker: Locker) -> bool:
    """The kernel names who took a lock, although by now only a child that inherited it may live."""
    takers = {lease.owner.pid} if lease.work is None else {lease.owner.pid, lease.work.pid}
    if locker.pid <= 0 or locker.pid in takers:
        return False
    if locker.uid is None:
        # A lease over the network is taken by a server, whose pid the file does not hold.
        return lease.kind is not LeaseKind.NETWORK
    return locker.uid not in (ROOT, uid)
