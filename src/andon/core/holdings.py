"""Which lease a process belongs to, and which leases of the book still stand."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from andon.model.device import DeviceStatus, Process, ProcessKind
from andon.model.work import Claim, Entry, Kin, Lease, Standing

BY_ITSELF, BY_FAMILY, BY_USER = 3, 2, 1


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
    return BY_USER if later and kin.uid == owner.uid else 0


def judge(
    entries: Iterable[Entry], statuses: Sequence[DeviceStatus], kin: Mapping[int, Kin], here: Here
) -> tuple[Claim, ...]:
    """The claims that stand: the locked ones, and those whose work outlived their holder.

    An unlocked file of another boot, or one that cannot be read, stands for nothing.
    """
    entries = list(entries)
    held = [_claim(entry, Standing.HELD) for entry in entries if entry.locked]
    loose = [entry for entry in entries if not entry.locked and entry.lease is not None]
    left = [
        (status.device.uuid, process)
        for status in (statuses if loose else ())
        for process in occupancy(status, held, kin, here).strangers
    ]
    orphans = [_claim(e, Standing.ORPHANED) for e in loose if _lives(e, left, kin, here)]
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


def _claim(entry: Entry, standing: Standing) -> Claim:
    known = Standing.UNREADABLE if entry.lease is None else standing
    return Claim(entry.lease, known, entry.uid, entry.user, entry.file)


def _lives(
    entry: Entry, left: Sequence[tuple[str, Process]], kin: Mapping[int, Kin], here: Here
) -> bool:
    lease = entry.lease
    if lease is None or lease.owner.boot != here.boot:
        return False
    if entry.group_lives:
        return True
    return any(
        bond(lease, kin.get(process.pid), here) > 0
        for uuid, process in left
        if lease.share_of(uuid)
    )
