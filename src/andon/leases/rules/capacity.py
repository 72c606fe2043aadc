"""The capacity of each device: the memory that is not promised, who uses it, and its health."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from andon.explain.evidence.blame import unattributed_bytes
from andon.leases.rules.eligibility import (
    LINK_WEIGHT,
    MAX_UTILIZATION_PERCENT,
    MEMORY_WEIGHT,
    UTILIZATION_WEIGHT,
    Obstacle,
    ObstacleKind,
    score,
)
from andon.leases.rules.membership import occupancy
from andon.model.device import (
    NO_ANSWER,
    DeviceStatus,
    Process,
    State,
)
from andon.model.lease import NOWHERE, Claim, Cordon, Kin, PidScope, Share
from andon.units import human_bytes


class Weights(Struct, frozen=True):
    """How much free memory and idleness count, and close links between several devices."""

    memory: float = MEMORY_WEIGHT
    utilization: float = UTILIZATION_WEIGHT
    links: float = LINK_WEIGHT


class Tenant(Struct, frozen=True):
    """A claim on a device, and what its processes use there."""

    claim: Claim
    share: Share | None  # None: an unreadable claim, which may be on anything
    used_bytes: int = 0


class DeviceCapacity(Struct, frozen=True):
    """One device, and what is on it."""

    status: DeviceStatus
    free_bytes: int | None  # neither in use nor promised
    points: float | None
    trouble: Obstacle | None = None
    tenants: tuple[Tenant, ...] = ()
    strangers: tuple[Process, ...] = ()
    max_utilization_percent: float = MAX_UTILIZATION_PERCENT  # above it, it is in use

    @property
    def uuid(self) -> str:
        return self.status.device.uuid

    @property
    def utilization_percent(self) -> int | None:
        if self.status.state is State.ASLEEP:
            return 0
        return self.status.sample.utilization_percent if self.status.sample else None


class Surroundings(Struct, frozen=True):
    """What else is known besides the readings: leases, broken devices, processes."""

    claims: tuple[Claim, ...] = ()
    cordons: tuple[Cordon, ...] = ()
    kin: Mapping[int, Kin] | None = None
    scope: PidScope = NOWHERE
    mine: frozenset[int] = frozenset()  # our own processes never count as strangers
    own: frozenset[str] = frozenset()  # the requester's own leases, which are not in its way
    broken: Mapping[str, str] | None = None  # errors that a device reported and that still apply
    max_utilization_percent: float = MAX_UTILIZATION_PERCENT


DEFAULT_WEIGHTS = Weights()


def capacities(
    statuses: Sequence[DeviceStatus], around: Surroundings, weights: Weights = DEFAULT_WEIGHTS
) -> tuple[DeviceCapacity, ...]:
    """Returns every device, with the claims and the strangers on it."""
    return tuple(_capacity(status, around, weights) for status in statuses)


def _capacity(status: DeviceStatus, around: Surroundings, weights: Weights) -> DeviceCapacity:
    uuid = status.device.uuid
    on_it = [(c, s) for c in around.claims if (s := c.share_of(uuid)) or c.lease is None]
    claims = [claim for claim, _ in on_it]
    found = occupancy(status, claims, around.kin or {}, around.scope, around.mine)
    tenants = tuple(
        Tenant(claim, share, _used(claim, found.used_bytes, found.unmeasured))
        for claim, share in on_it
        if claim.lease is None or claim.lease.id not in around.own
    )
    free = _free(status, tenants)
    points = score(
        free,
        status.device.memory_total_bytes,
        _known_utilization(status),
        weights.memory,
        weights.utilization,
    )
    return DeviceCapacity(
        status,
        free,
        points,
        _trouble(status, around, bool(tenants)),
        tenants,
        found.strangers,
        around.max_utilization_percent,
    )


def _used(claim: Claim, used: Mapping[str, int], unmeasured: frozenset[str]) -> int:
    """Returns the memory that a lease uses; 0 if that is unknown: then all that it was
    promised stays so."""
    if claim.lease is None or claim.lease.id in unmeasured:
        return 0
    return used.get(claim.lease.id, 0)


def _free(status: DeviceStatus, tenants: Sequence[Tenant]) -> int | None:
    """Returns the free memory; memory that is promised but not yet used counts as used."""
    sample, total = status.sample, status.device.memory_total_bytes
    if status.state is State.ASLEEP:
        free: int | None = total
    else:
        free = sample.memory_free_bytes if sample and status.answered else None
    if free is None:
        return None
    promises = [
        (tenant.share.memory_bytes, tenant.used_bytes)
        for tenant in tenants
        if tenant.share is not None and tenant.share.memory_bytes is not None
    ]
    unused = sum(max(0, promised - used) for promised, used in promises)
    left = free - unused
    if total is not None:
        reserved = (sample.memory_reserved_bytes or 0) if sample else 0
        left = min(left, total - reserved - sum(promised for promised, _ in promises))
    return max(0, left)


def _known_utilization(status: DeviceStatus) -> float | None:
    """Returns the utilisation; a partition does not report it: it gets no credit for being idle,
    and is not excluded."""
    if status.state is State.ASLEEP:
        return 0
    if status.device.parent is not None and status.sample is not None:
        known = status.sample.utilization_percent
        return 100 if known is None else known
    return status.sample.utilization_percent if status.sample else None


def _trouble(status: DeviceStatus, around: Surroundings, taken: bool) -> Obstacle | None:
    """Returns why the device itself cannot be used now; None once that is fixed."""
    uuid, sample = status.device.uuid, status.sample
    cordon = next((c for c in around.cordons if c.uuid == uuid), None)
    if cordon is not None:
        why = f": {cordon.reason}" if cordon.reason else ""
        return Obstacle(ObstacleKind.CORDONED, f"cordoned by {cordon.by}{why}", by=cordon.by)
    if status.state in NO_ANSWER:
        bar = ObstacleKind.LOST if status.state is State.LOST else ObstacleKind.STALE
        why = f": {status.reason}" if status.reason else ""
        return Obstacle(bar, f"{status.state.text}{why}")
    broken = around.broken or {}
    if (reported := broken.get(uuid) or broken.get(status.device.parent or "")) is not None:
        return Obstacle(ObstacleKind.BROKEN, reported)
    if status.state is State.ASLEEP:
        return None
    if sample is None:
        return Obstacle(ObstacleKind.UNKNOWN, "no reading yet")
    if sample.ecc_uncorrected:
        many = "s" * (sample.ecc_uncorrected != 1)
        return Obstacle(
            ObstacleKind.ECC, f"{sample.ecc_uncorrected} uncorrected memory error{many} (ECC)"
        )
    return None if taken else _unattributed(status)


def _unattributed(status: DeviceStatus) -> Obstacle | None:
    spare = unattributed_bytes(status)
    if not spare:
        return None
    return Obstacle(
        ObstacleKind.UNATTRIBUTED_MEMORY, f"{human_bytes(spare)} used by no visible process"
    )
