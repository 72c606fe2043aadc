"""Whether the lock on a lease file belongs to its holder or to another user, and so counts."""

from collections.abc import Sequence

from msgspec import Struct

from andon.model.lease import Lease, LeaseKind

ROOT = 0


class Locker(Struct, frozen=True):
    """A process that took a file's exclusive lock, according to the kernel."""

    pid: int
    uid: int | None = None  # None: no such process is visible


def are_strangers(lease: Lease, uid: int, lockers: Sequence[Locker]) -> bool:
    """Whether no lock belongs to the holder, to its user or to root, and that is certain.

    Anyone who may read a file may lock it. `uid` is the file's owner. Where the kernel names no
    process the lock counts: its holder is in another pid namespace.
    """
    return bool(lockers) and all(_is_stranger(lease, uid, locker) for locker in lockers)


def _is_stranger(lease: Lease, uid: int, locker: Locker) -> bool:
    """The kernel names who took a lock, even if only a child that inherited it is still alive."""
    takers = {lease.owner.pid} if lease.work is None else {lease.owner.pid, lease.work.pid}
    if locker.pid <= 0 or locker.pid in takers:
        return False
    if locker.uid is None:
        # A lease over the network is taken by a server, whose pid the file does not hold.
        return lease.kind is not LeaseKind.NETWORK
    return locker.uid not in (ROOT, uid)
