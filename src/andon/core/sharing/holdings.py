"""Which lease a process belongs to, and which leases of the book still stand.

Whoever writes a lease file can name any process in it. So a process of another user belongs to a
lease by the file's word alone: that is enough to not call it a stranger there, and never enough
to withhold a device for it or to advise that it be ended.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from andon.model.device import DeviceStatus, Process, ProcessKind
from andon.model.work import BookEntry, Claim, Kin, Lease, LeaseState, Work

BY_ITSELF, BY_FAMILY, BY_USER, BY_WORD = 4, 3, 2, 1

LEAST_GROUP = 2  # to `kill`, group 1 means every process and group 0 the caller's own


@dataclass(frozen=True, slots=True)
class Here:
    """Where we look from: numbers of another boot or pid namespace mean other processes."""

    boot: str | None = None
    pid_namespace: str | None = None


NOWHERE = Here()


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Who is on one device: what each lease uses there, and the processes of no lease."""

    used_bytes: Mapping[str, int] = field(default_factory=dict)  # by lease id
    unmeasured: frozenset[str] = frozenset()  # leases with a process whose memory is unknown
    strangers: tuple[Process, ...] = ()


def bond(lease: Lease, kin: Kin | None, here: Here) -> int:
    """How surely a process belongs to a lease; 0 is not at all."""
    if kin is None:
        return 0
    named = _named(lease, kin, here)
    if not is_owners(kin, lease.owner.uid):
        return BY_WORD if named else 0
    if kin.uid != lease.owner.uid:
        return named
    return named or (BY_USER if kin.started_ticks >= lease.since_ticks else 0)


def _named(lease: Lease, kin: Kin, here: Here) -> int:
    """How closely the lease's own numbers name this process."""
    later = kin.started_ticks >= lease.since_ticks
    owner, work = lease.owner, lease.work
    if owner.pid_namespace == here.pid_namespace:
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
    return 0


def believed(work: Work | None, uid: int, members: Sequence[Kin]) -> tuple[int, ...]:
    """Who is left of a lease's work: the living members of its group that are its owner's.

    With the start of its leader, a later group of the same number is none of them: the kernel
    gives a number away again only when no one is left in its group.
    """
    if work is None or work.group is None or work.group < LEAST_GROUP:
        return ()
    leader = next((kin for kin in members if kin.pid == work.group), None)
    if leader and work.pid == work.group and leader.started_ticks != work.started_ticks:
        return ()
    return tuple(kin.pid for kin in members if is_owners(kin, uid) and not kin.ended)


def is_owners(kin: Kin | None, uid: int) -> bool:
    """Whether a lease of this user may speak for a process: it is the user's own, or the lease is
    root's, who could name no process that is not root's to end."""
    return kin is not None and uid in (0, kin.uid)


def judge(
    entries: Iterable[BookEntry],
    statuses: Sequence[DeviceStatus],
    kin: Mapping[int, Kin],
    here: Here,
) -> tuple[Claim, ...]:
    """The claims that stand: the locked ones, and those whose work outlived their holder.

    An unlocked file of another boot, or one that cannot be read, stands for nothing.
    """
    entries = list(entries)
    held = [_claim(entry, LeaseState.HELD) for entry in entries if entry.locked]
    loose = [entry for entry in entries if not entry.locked and entry.lease is not None]
    left = [
        (status.device.uuid, process)
        for status in (statuses if loose else ())
        for process in occupancy(status, held, kin, here).strangers
    ]
    orphans = [_claim(e, LeaseState.ORPHANED) for e in loose if _lives(e, left, kin, here)]
    return (*held, *orphans)


def occupancy(
    status: DeviceStatus,
    claims: Iterable[Claim],
    kin: Mapping[int, Kin],
    here: Here,
    mine: frozenset[int] = frozenset(),
) -> Occupancy:
    """What the device's processes say; graphics processes are strangers to nobody."""
    leases = [c.lease for c in claims if c.lease is not None and c.share_of(status.device.uuid)]
    used = {lease.id: 0 for lease in leases}
    unmeasured, strangers = set(), []
    for process in status.processes:
        lease = nearest(process, leases, kin, here)
        if lease is not None:
            used[lease.id] += process.memory_bytes or 0
            if process.memory_bytes is None:
                unmeasured.add(lease.id)
        elif process.kind is ProcessKind.COMPUTE and process.pid not in mine:
            strangers.append(process)
    return Occupancy(used, frozenset(unmeasured), tuple(strangers))


def nearest(
    process: Process, leases: Iterable[Lease], kin: Mapping[int, Kin], here: Here
) -> Lease | None:
    """The lease that a process belongs to most surely, the latest where several do."""
    bonds = [(bond(lease, kin.get(process.pid), here), lease.since, lease) for lease in leases]
    strength, _, lease = max(bonds, key=lambda b: b[:2], default=(0, 0.0, None))
    return lease if strength else None


def _claim(entry: BookEntry, state: LeaseState) -> Claim:
    known = LeaseState.UNREADABLE if entry.lease is None else state
    return Claim(entry.lease, known, entry.uid, entry.user, entry.file, entry.left)


def _lives(
    entry: BookEntry, left: Sequence[tuple[str, Process]], kin: Mapping[int, Kin], here: Here
) -> bool:
    lease = entry.lease
    if lease is None or lease.owner.boot != here.boot:
        return False
    if entry.left:
        return True
    return any(
        bond(lease, kin.get(process.pid), here) > BY_WORD
        for uuid, process in left
        if lease.share_of(uuid)
    )
