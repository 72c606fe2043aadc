"""A lease for a process that already runs: which devices it takes, and which process it is for."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from andon.errors import Conflict, Invalid
from andon.leases.rules.membership import BY_WORD, bond
from andon.model.device import DeviceStatus
from andon.model.lease import Claim, Kin, LeaseState, PidScope
from andon.model.naming import devices_named


def check_pid(pid: int, own: int) -> None:
    """Raises Invalid for a number that is the pid of no process to wait for."""
    if pid < 1:
        raise Invalid(f"{pid} is not the pid of a process", hint="andon ps lists them")
    if pid == 1:
        raise Invalid("process 1 runs as long as the machine", hint="name the process that works")
    if pid == own:
        raise Invalid(f"process {pid} is this andon itself", hint="andon ps lists the others")


def devices_around(
    statuses: Sequence[DeviceStatus], family: AbstractSet[int], names: Iterable[str]
) -> tuple[str, ...]:
    """Returns the devices that were named, else those on which the family has processes; of a
    board with partitions, only these."""
    named = {uuid for name in names for uuid in devices_named(name, statuses)}
    boards = {status.device.parent for status in statuses}
    used = named or {s.device.uuid for s in statuses for p in s.processes if p.pid in family}
    return tuple(s.device.uuid for s in statuses if s.device.uuid in used - boards)


def left_to(
    claims: Iterable[Claim],
    statuses: Sequence[DeviceStatus],
    kin: Mapping[int, Kin],
    scope: PidScope,
    uid: int,
    family: frozenset[int],
) -> tuple[Claim, ...]:
    """Returns the orphaned leases of a user of which nothing is left but this family: a new lease
    takes their place."""
    found = []
    for claim in claims:
        lease = claim.lease
        if lease is None or claim.state is not LeaseState.ORPHANED or claim.uid != uid:
            continue
        used = {p.pid for s in statuses if lease.share_of(s.device.uuid) for p in s.processes}
        left = (pid for pid in used if bond(lease, kin.get(pid), scope) > BY_WORD)
        if family.issuperset((*claim.left, *left)):
            found.append(claim)
    return tuple(found)


def check_unleased(
    claims: Iterable[Claim], uuids: Iterable[str], process: Kin, scope: PidScope
) -> None:
    """Raises Conflict if a lease of the process's user on these devices covers the process."""
    wanted = frozenset(uuids)
    for claim in claims:
        lease = claim.lease
        if lease is None or not wanted.intersection(share.uuid for share in lease.shares):
            continue
        if bond(lease, process, scope) > BY_WORD:
            raise Conflict(
                f"process {process.pid} is already under lease {lease.id} ({claim.holder})",
                hint="andon leases says until when",
            )
