"""A lease and what is actually used of it: one row, the same in every view."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from andon.leases.rules.capacity import DeviceCapacity
from andon.leases.rules.rights import LeaseRequester, barred
from andon.leases.rules.usage import NO_USAGE, RecentUsage
from andon.model.device import Device
from andon.model.lease import Claim, Cordon, Lease, Ticket
from andon.model.lease_list import CordonRow, LeaseRow, UserHours, WaitingRow

T = TypeVar("T")
NONE = "no leases"
EMPTY = f"{NONE}; to take one: andon run -- python train.py"


def lease_rows(
    claims: Sequence[Claim], capacities: Sequence[DeviceCapacity], requester: LeaseRequester
) -> tuple[LeaseRow, ...]:
    """Returns a row for each claim."""
    used, busy = _used(capacities), _utilization(capacities)
    return tuple(
        lease_row(claim, used.get(claim.file, 0), busy.get(claim.file), requester)
        for claim in claims
    )


def lease_row(
    claim: Claim, used_bytes: int, utilization_percent: float | None, requester: LeaseRequester
) -> LeaseRow:
    lease, bar = claim.lease, barred(claim, requester)
    return LeaseRow(
        id=_of(lease, lambda one: one.id),
        user=claim.user,
        whom=_of(lease, lambda one: one.whom or None),
        uid=claim.uid,
        state=claim.state,
        kind=_of(lease, lambda one: one.kind),
        devices=() if lease is None else lease.shares,
        since=_of(lease, lambda one: one.since),
        until=_of(lease, lambda one: one.until),
        command=_of(lease, lambda one: one.command),
        simulated=lease is not None and lease.simulated,
        used_bytes=used_bytes,
        promised_bytes=_of(lease, promised_bytes),
        utilization_percent=utilization_percent,
        fence=_of(lease, lambda one: one.fence),
        pid=_of(lease, lambda one: one.owner.pid),
        releasable=bar is None,
        not_releasable_reason=None if bar is None else f"{bar.reason}: {bar.hint}",
    )


def promised_bytes(lease: Lease) -> int | None:
    """Returns the memory a lease was promised in total; None if it has whole devices."""
    sizes = [share.memory_bytes for share in lease.shares if share.memory_bytes is not None]
    return sum(sizes) if sizes else None


def usage_rows(usage: RecentUsage, name_of: Callable[[int], str]) -> tuple[UserHours, ...]:
    """Each user's GPU hours, most first."""
    most = sorted(usage.hours.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(UserHours(name_of(uid), uid, round(hours, 2)) for uid, hours in most)


def waiting_rows(line: Sequence[Ticket], usage: RecentUsage = NO_USAGE) -> tuple[WaitingRow, ...]:
    return tuple(
        WaitingRow(
            place,
            ticket.owner.user,
            ticket.need.least,
            ticket.need.memory_bytes,
            ticket.since if ticket.asked is None else min(ticket.asked, ticket.since),
            ticket.priority,
            ticket.jobs_behind,
            _hours(usage, ticket),
        )
        for place, ticket in enumerate(line, 1)
    )


def cordon_rows(cordons: Sequence[Cordon], devices: Sequence[Device]) -> tuple[CordonRow, ...]:
    indices = {device.uuid: device.index for device in devices}
    return tuple(
        CordonRow(one.uuid, indices.get(one.uuid), one.at, one.by, one.reason) for one in cordons
    )


def _hours(usage: RecentUsage, ticket: Ticket) -> float | None:
    found = usage.hours.get(ticket.owner.uid)
    return None if found is None else round(found, 2)


def _used(capacities: Sequence[DeviceCapacity]) -> Mapping[str, int]:
    """Returns the memory that each claim's processes use on all its devices."""
    used: dict[str, int] = {}
    for capacity in capacities:
        for tenant in capacity.tenants:
            used[tenant.claim.file] = used.get(tenant.claim.file, 0) + tenant.used_bytes
    return used


def _utilization(capacities: Sequence[DeviceCapacity]) -> Mapping[str, float]:
    """The mean utilisation over a claim's devices, which are unknown for an unreadable claim."""
    found: dict[str, list[int]] = {}
    for capacity in capacities:
        for tenant in capacity.tenants:
            if tenant.share is not None and capacity.utilization_percent is not None:
                found.setdefault(tenant.claim.file, []).append(capacity.utilization_percent)
    return {file: sum(values) / len(values) for file, values in found.items()}


def _of(lease: Lease | None, read: Callable[[Lease], T]) -> T | None:
    """Returns a value of a lease; None for a lease that cannot be read."""
    return None if lease is None else read(lease)
