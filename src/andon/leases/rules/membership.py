"""Which lease a process belongs to, and which leases in the book are still valid.

The user who writes a lease file can name any process in it. A process of another user belongs to
a lease only because the file says so: enough not to call it a stranger there, never enough to
hold a device for it or to suggest stopping it.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from andon.model.device import DeviceStatus, Process, ProcessKind
from andon.model.lease import BookEntry, Claim, Kin, Lease, LeaseState, PidScope, Work

BY_ITSELF, BY_FAMILY, BY_USER, BY_WORD = 4, 3, 2, 1

LEAST_GROUP = 2  # to `kill`, group 1 means every process and group 0 the caller's own


class Occupancy(Struct, frozen=True):
    """Who uses one device: the memory of each lease, and the processes without a lease."""

    used_bytes: Mapping[str, int] = field(default_factory=dict)  # by lease id
    unmeasured: frozenset[str] = frozenset()  # leases with a process whose memory is unknown
    strangers: tuple[Process, ...] = ()


def bond(lease: Lease, kin: Kin | None, scope: PidScope) -> int:
    """Returns how certainly a process belongs to a lease; 0 means it does not."""
    if kin is None:
        return 0
    named = _named(lease, kin, scope)
    if not is_owners(kin, lease.owner.uid):
        return BY_WORD if named else 0
    if kin.uid != lease.owner.uid:
        return named
    return named or (BY_USER if kin.started_ticks >= lease.since_ticks else 0)


def _named(lease: Lease, kin: Kin, scope: PidScope) -> int:
    """Returns how closely the lease file identifies this process."""
    later = kin.started_ticks >= lease.since_ticks
    owner, work = lease.owner, lease.work
    if owner.pid_namespace == scope.pid_namespace:
        selves = [(owner.pid, owner.started_ticks)]
        selves += [(work.pid, work.started_ticks)] if work else []
        if (kin.pid, kin.started_ticks) in selves:
            return BY_ITSELF
        if later and work is not None and work.group == kin.group:
            return BY_ITSELF
        if later and kin.session == owner.session:
            return BY_FAMILY
    if owner.container is not None and kin.container == owner.container:
        return BY_FAMILY
    if kin.container is not None and kin.container in lease.containers:
        return BY_ITSELF
    return 0


def believed(work: Work, uid: int, members: Sequence[Kin]) -> tuple[int, ...]:
    """Returns what is left of a lease's job: the live members of its process group that its
    owner owns; without a group the process itself.

    The start time of its leader excludes a later group with the same number: the kernel reuses a
    number only when its group is empty.
    """
    if work.group is None:
        same = (k for k in members if (k.pid, k.started_ticks) == (work.pid, work.started_ticks))
        return tuple(k.pid for k in same if is_owners(k, uid) and not k.ended)
    if work.group < LEAST_GROUP:
        return ()
    leader = next((kin for kin in members if kin.pid == work.group), None)
    if leader and work.pid == work.group and leader.started_ticks != work.started_ticks:
        return ()
    return tuple(kin.pid for kin in members if is_owners(kin, uid) and not kin.ended)


def believed_in_containers(
    lease: Lease, uid: int, members: Mapping[str, Sequence[Kin]]
) -> tuple[int, ...]:
    """Returns what is left of a lease's containers: their live processes that its owner owns.

    A file may name any container: the processes of other users in it do not count.
    """
    return tuple(
        kin.pid
        for container in lease.containers
        for kin in members.get(container, ())
        if is_owners(kin, uid) and not kin.ended
    )


def is_owners(kin: Kin | None, uid: int) -> bool:
    """Whether a lease of this user may claim a process: the process is the user's own, or the
    lease belongs to root, who may stop any process anyway."""
    return kin is not None and uid in (0, kin.uid)


def judge(
    entries: Iterable[BookEntry],
    statuses: Sequence[DeviceStatus],
    kin: Mapping[int, Kin],
    scope: PidScope,
) -> tuple[Claim, ...]:
    """Returns the valid claims: the locked ones, and those whose job outlived their holder.

    An unlocked file from another boot, or one that cannot be read, claims nothing.
    """
    entries = list(entries)
    held = [_claim(entry, LeaseState.HELD) for entry in entries if entry.locked]
    loose = [entry for entry in entries if not entry.locked and entry.lease is not None]
    left = [
        (status.device.uuid, process)
        for status in (statuses if loose else ())
        for process in occupancy(status, held, kin, scope).strangers
    ]
    orphans = [_claim(e, LeaseState.ORPHANED) for e in loose if _lives(e, left, kin, scope)]
    return (*held, *orphans)


def occupancy(
    status: DeviceStatus,
    claims: Iterable[Claim],
    kin: Mapping[int, Kin],
    scope: PidScope,
    mine: frozenset[int] = frozenset(),
) -> Occupancy:
    """Returns what each lease uses, and the strangers; graphics processes are never strangers."""
    leases = [c.lease for c in claims if c.lease is not None and c.share_of(status.device.uuid)]
    used = {lease.id: 0 for lease in leases}
    unmeasured, strangers = set(), []
    for process in status.processes:
        lease = nearest(process, leases, kin, scope) if leases else None
        if lease is not None:
            used[lease.id] += process.memory_bytes or 0
            if process.memory_bytes is None:
                unmeasured.add(lease.id)
        elif process.kind is ProcessKind.COMPUTE and process.pid not in mine:
            strangers.append(process)
    return Occupancy(used, frozenset(unmeasured), tuple(strangers))


def nearest(
    process: Process, leases: Iterable[Lease], kin: Mapping[int, Kin], scope: PidScope
) -> Lease | None:
    """Returns the lease that a process most certainly belongs to; the latest of several."""
    bonds = [
        (bond(lease, kin.get(process.pid), scope) or _is_for(lease, process), lease.since, lease)
        for lease in leases
    ]
    strength, _, lease = max(bonds, key=lambda b: b[:2], default=(0, 0.0, None))
    return lease if strength else None


def _is_for(lease: Lease, process: Process) -> int:
    """Returns BY_WORD if the lease is held for the process's user, else 0."""
    return BY_WORD if lease.whom and process.user == lease.whom else 0


def _claim(entry: BookEntry, state: LeaseState) -> Claim:
    known = LeaseState.UNREADABLE if entry.lease is None else state
    return Claim(entry.lease, known, entry.uid, entry.user, entry.file, entry.left)


def _lives(
    entry: BookEntry, left: Sequence[tuple[str, Process]], kin: Mapping[int, Kin], scope: PidScope
) -> bool:
    lease = entry.lease
    if lease is None or lease.owner.boot != scope.boot:
        return False
    if entry.left:
        return True
    return any(
        bond(lease, kin.get(process.pid), scope) > BY_WORD
        for uuid, process in left
        if lease.share_of(uuid)
    )
