"""Which available devices are chosen together, and why each of the others is not."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from andon.explain.evidence.blame import unattributed_bytes
from andon.leases.rules.capacity import DeviceCapacity, Tenant
from andon.leases.rules.eligibility import (
    BALANCE,
    HEALTH,
    Obstacle,
    ObstacleKind,
    can_balance,
    empty_bytes,
)
from andon.model.device import Process, State
from andon.model.job.device_request import PlacementOrder
from andon.model.lease import LeaseState, Need
from andon.units import and_more, distinct_bytes, human_bytes

if TYPE_CHECKING:
    from andon.leases.rules.group import Rank

OVERRIDDEN = frozenset(
    {
        ObstacleKind.UNLEASED_PROCESS,
        ObstacleKind.BUSY,
        ObstacleKind.UNATTRIBUTED_MEMORY,
        ObstacleKind.UNKNOWN,
    }
)
"""What `--even-if-used` overrides; never a lease, and never a device that is not responding."""


class Candidate(Struct, frozen=True):
    """One device as it was considered; the record of a run lists them all."""

    uuid: str
    index: int
    free_bytes: int | None
    utilization_percent: int | None
    score: float | None
    obstacle: Obstacle | None = None
    chosen: bool = False


class DeviceChoice(Struct, frozen=True):
    """The chosen devices, best first; where there are none, why."""

    chosen: tuple[DeviceCapacity, ...]
    candidates: tuple[Candidate, ...]
    reason: str | None = None  # why nothing was chosen although devices are available
    linked: str | None = None  # what links the chosen ones, where that counted


def obstacle(capacity: DeviceCapacity, need: Need) -> Obstacle | None:
    """Returns why this device does not meet the need now; None if it does."""
    found = (
        _trouble(capacity)
        or _tenancy(capacity, need)
        or _strangers(capacity)
        or _readings(capacity)
    )
    if found is not None and not (need.even_if_used and found.kind in OVERRIDDEN):
        return found
    if found is not None and (leased := _tenancy(capacity, need)) is not None:
        return leased  # an overridden obstacle must not hide a lease
    return _memory(capacity, need)


def hopeful(capacity: DeviceCapacity, need: Need) -> bool:
    """Whether the device could meet the need once the work on it has ended."""
    if capacity.uuid not in need.eligible or _is_too_small(capacity, need):
        return False
    trouble = capacity.trouble
    if trouble is None or trouble.kind not in HEALTH:
        return True
    return need.even_if_used and trouble.kind in OVERRIDDEN


def lacks_memory(capacities: Sequence[DeviceCapacity], need: Need) -> bool:
    """Whether no end of work gives enough devices the memory that is needed."""
    eligible = [capacity for capacity in capacities if capacity.uuid in need.eligible]
    enough = sum(not _is_too_small(capacity, need) for capacity in eligible)
    return enough < need.least and len(eligible) == len(need.eligible)


def _is_too_small(capacity: DeviceCapacity, need: Need) -> bool:
    """Whether a device is too small: an unused one has no more than is free, also if its total
    is larger."""
    most = empty_bytes(capacity.status)
    if need.memory_bytes is None or most is None:
        return False
    idle = not (capacity.tenants or capacity.status.processes or capacity.trouble)
    if idle and capacity.free_bytes is not None and unattributed_bytes(capacity.status) == 0:
        most = min(most, capacity.free_bytes)
    return need.memory_bytes > most


def can_come(capacities: Sequence[DeviceCapacity], need: Need) -> bool:
    """Whether the need can be met once current work has ended; devices not seen here count."""
    hoped = [capacity for capacity in capacities if hopeful(capacity, need)]
    unseen = len(need.eligible - {capacity.uuid for capacity in capacities})
    if len(hoped) + unseen < need.least:
        return False
    totals = [capacity.status.device.memory_total_bytes for capacity in hoped]
    return bool(unseen) or not need.balanced or can_balance(totals, need.least)


def rank(
    preferred: AbstractSet[str] = frozenset(), layout: PlacementOrder = PlacementOrder.SPREAD
) -> "Rank":
    """Returns a sort key, smallest first: preferred devices, then awake ones, then by score."""

    def key(capacity: DeviceCapacity) -> tuple[float, ...]:
        points = capacity.points or 0.0
        order = points if layout is PlacementOrder.PACK else -points
        asleep = capacity.status.state is State.ASLEEP
        return (capacity.uuid not in preferred, asleep, order, capacity.status.device.index)

    return key


def available(
    capacities: Sequence[DeviceCapacity],
    need: Need,
    taken: AbstractSet[str] = frozenset(),
    order: "Rank | None" = None,
) -> list[DeviceCapacity]:
    """Returns every device that meets the need by itself, best first."""
    free = [r for r in capacities if r.uuid in need.eligible and r.uuid not in taken]
    return sorted((r for r in free if obstacle(r, need) is None), key=order or rank())


def pick(
    capacities: Sequence[DeviceCapacity],
    need: Need,
    taken: AbstractSet[str] = frozenset(),
    order: "Rank | None" = None,
    link_weight: float = 0.0,
) -> tuple[DeviceCapacity, ...]:
    """Returns the best and largest group that meets the need; empty if there is none.

    With a weight, closely linked devices are preferred if their places are known.
    """
    order = order or rank()
    free = available(capacities, need, taken, order)
    for count in range(min(need.most, len(free)), need.least - 1, -1):
        group = _group(free, count, need.balanced, order, link_weight)
        if group:
            return group
    return ()


def choose(
    capacities: Sequence[DeviceCapacity],
    need: Need,
    obstacles: Mapping[str, Obstacle | None],
    taken: Mapping[str, Obstacle],
    order: "Rank | None" = None,
    link_weight: float = 0.0,
) -> DeviceChoice:
    """Returns the choice, with the reason for every device that is not available."""
    chosen = pick(capacities, need, taken.keys(), order, link_weight)
    uuids = {capacity.uuid for capacity in chosen}
    candidates = tuple(
        Candidate(
            capacity.uuid,
            capacity.status.device.index,
            capacity.free_bytes,
            capacity.utilization_percent,
            capacity.points,
            obstacles.get(capacity.uuid) or obstacle(capacity, need) or taken.get(capacity.uuid),
            capacity.uuid in uuids,
        )
        for capacity in capacities
    )
    calm = {c.uuid for c in candidates if c.obstacle is None}
    free = [capacity for capacity in capacities if capacity.uuid in calm]
    reason = None
    if not chosen and len(free) >= need.least:
        sizes = [capacity.free_bytes or 0 for capacity in free]
        reason = (
            f"free memory differs too much between the available devices "
            f"({human_bytes(min(sizes))} to {human_bytes(max(sizes))})"
        )
    linked = _links(chosen) if link_weight and len(chosen) > 1 else None
    return DeviceChoice(chosen, candidates, reason, linked)


def _links(chosen: Sequence[DeviceCapacity]) -> str | None:
    from andon.model.links import group_links_text  # most requests are for one device

    return group_links_text([one.status.device for one in chosen])


def _group(
    free: Sequence[DeviceCapacity],
    count: int,
    balanced: bool,
    order: "Rank",
    link_weight: float,
) -> tuple[DeviceCapacity, ...]:
    if count < 1 or len(free) < count:
        return ()
    if count == 1:
        return (free[0],)
    from andon.leases.rules.group import GroupValue

    value = GroupValue(free, order, link_weight)
    if not balanced:
        return value.best_of(free, count)
    best: tuple[DeviceCapacity, ...] = ()
    for largest in sorted({capacity.free_bytes or 0 for capacity in free}, reverse=True):
        near = [r for r in free if BALANCE * largest <= (r.free_bytes or 0) <= largest]
        group = value.best_of(near, count)
        if len(group) == count and (not best or value.of(group) < value.of(best)):
            best = group
    return best


def _trouble(capacity: DeviceCapacity) -> Obstacle | None:
    """Returns the obstacle, people first: unattributed memory is worth naming only if no one is
    known to use the device."""
    trouble = capacity.trouble
    if trouble is not None and trouble.kind is ObstacleKind.UNATTRIBUTED_MEMORY:
        return (_strangers(capacity) if capacity.strangers else None) or trouble
    return trouble


def _tenancy(capacity: DeviceCapacity, need: Need) -> Obstacle | None:
    whole = [t for t in capacity.tenants if t.share is None or t.share.memory_bytes is None]
    if whole:
        return _held(whole[0])
    if capacity.tenants and not need.shared:
        return _held(capacity.tenants[0])
    return None


def _held(tenant: Tenant) -> Obstacle:
    claim, lease = tenant.claim, tenant.claim.lease
    if lease is None:
        reason = f"{claim.user} holds a lease that cannot be read ({claim.file})"
        return Obstacle(ObstacleKind.UNREADABLE, reason, by=claim.user)
    size = tenant.share.memory_bytes if tenant.share else None
    part = f"{human_bytes(size)} " if size is not None else ""
    if claim.state is LeaseState.ORPHANED:
        reason = f"{part}orphaned by lease {lease.id} ({claim.holder}), whose job is still running"
        return Obstacle(ObstacleKind.ORPHANED, reason, by=claim.holder, lease=lease.id)
    reason = f"{part}held by lease {lease.id} ({claim.holder})"
    return Obstacle(ObstacleKind.LEASED, reason, lease.until, claim.holder, lease.id)


def _strangers(capacity: DeviceCapacity) -> Obstacle | None:
    if capacity.strangers:
        shown = ", ".join(_stranger(process) for process in capacity.strangers[:3])
        more = and_more(len(capacity.strangers) - 3)
        users = dict.fromkeys(process.user for process in capacity.strangers if process.user)
        reason = f"{shown}{more} without a lease"
        return Obstacle(ObstacleKind.UNLEASED_PROCESS, reason, by=", ".join(users) or None)
    if not capacity.tenants and "processes" in capacity.status.missing:
        why = capacity.status.missing["processes"]
        return Obstacle(ObstacleKind.UNKNOWN, f"its processes cannot be read: {why}")
    return None


def _stranger(process: Process) -> str:
    who = f" ({process.user})" if process.user else ""
    size = process.memory_bytes
    uses = "uses it" if size is None else f"uses {human_bytes(size)}"
    return f"pid {process.pid}{who} {uses}"


def _readings(capacity: DeviceCapacity) -> Obstacle | None:
    status, busy = capacity.status, capacity.utilization_percent
    if capacity.tenants or status.device.parent is not None:
        return None
    if busy is None:
        why = status.missing.get("utilization_percent", "no reading")
        return Obstacle(ObstacleKind.UNKNOWN, f"its utilisation cannot be read: {why}")
    if busy > capacity.max_utilization_percent:
        return Obstacle(ObstacleKind.BUSY, f"{busy} % busy, but no visible process uses it")
    return None


def _memory(capacity: DeviceCapacity, need: Need) -> Obstacle | None:
    if capacity.free_bytes is None:
        if need.memory_bytes is None and (
            need.even_if_used or capacity.status.state is State.ASLEEP
        ):
            return None
        why = capacity.status.missing.get("memory_free_bytes", "no reading")
        return Obstacle(ObstacleKind.UNKNOWN, f"its free memory cannot be read: {why}")
    if need.memory_bytes is None or capacity.free_bytes >= need.memory_bytes:
        return None
    left = "{} free, {} requested".format(*distinct_bytes(capacity.free_bytes, need.memory_bytes))
    if capacity.tenants:
        first = _held(capacity.tenants[0])
        return replace(first, kind=ObstacleKind.FULL, reason=f"{first.reason}; {left}")
    return Obstacle(ObstacleKind.FULL, left)
