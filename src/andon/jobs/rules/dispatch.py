"""Which of a user's waiting jobs start now, and on which devices.

They start in their order. Behind one that cannot start yet, a later one may start only on devices
that the first cannot use, or with a time limit that ends before the first could start by the limits
of the leases in its way. If no such moment is known, no job overtakes it. Where other users have
reserved a device, a job starts only with a time limit that ends before.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from andon.leases.rules.capacity import DeviceCapacity
from andon.leases.rules.choice import can_come, hopeful, obstacle, pick
from andon.leases.rules.eligibility import ObstacleKind
from andon.leases.rules.group import Rank
from andon.leases.rules.spans import Span, first_gap
from andon.model.lease import Need

MOST_STARTS = 64
"""In one round; the next one follows at once."""
MOST_BLOCKED = 4
"""Jobs that are named as waiting where every device is taken."""
HELD = frozenset((ObstacleKind.LEASED, ObstacleKind.FULL))
Booked = Mapping[str, Sequence[Span]]
"""When each device, by uuid, is reserved for other users."""


class QueuedJob(Struct, frozen=True):
    """A job that is ready. `lasts_seconds` is how long it holds its devices at most: its time
    limit and its grace; None if it has no limit."""

    number: int
    need: Need
    lasts_seconds: float | None = None
    order: Rank | None = None


def leaving(left: AbstractSet[str], order: Rank) -> Rank:
    """Returns an order in which the devices that the job is to leave come last."""

    def key(capacity: DeviceCapacity) -> tuple[float, ...]:
        first, *rest = order(capacity)
        return (first + 2 * (capacity.uuid in left), *rest)

    return key if left else order


class PlannedStart(Struct, frozen=True):
    """A job that starts now; `passes` are the waiting jobs that it overtakes."""

    number: int
    uuids: tuple[str, ...]
    passes: tuple[int, ...] = ()


class BlockedJob(Struct, frozen=True):
    """A job that cannot start now. It claims `hoped`, all the devices that it could use, and
    could start at `could_start` by the limits of the leases in its way; None if not known."""

    number: int
    hoped: frozenset[str] = frozenset()
    could_start: float | None = None
    behind: int | None = None  # the job ahead that keeps what it could have


class DispatchPlan(Struct, frozen=True):
    """The jobs that start, and those that block others; other waiting jobs are in neither."""

    starts: tuple[PlannedStart, ...] = ()
    blocked: tuple[BlockedJob, ...] = ()


def plan(
    jobs: Iterable[QueuedJob],
    capacities: Sequence[DeviceCapacity],
    at: float,
    promised: AbstractSet[str] = frozenset(),
    link_weight: float = 0.0,
    booked: Booked = {},  # noqa: B006 - never changed
) -> DispatchPlan:
    """Returns the plan. `jobs` are in their order; `promised` are devices that others ahead in
    the book's queue get, `booked` what is reserved for others; with a weight, several devices of
    one job are linked closely where that is known.

    Jobs with the same need and limit are alike, so that ten thousand of them cost little.
    """
    round_ = _Round(capacities, at, promised, link_weight, booked)
    starts: list[PlannedStart] = []
    shared, stopped = False, None
    for job in jobs:
        if job.need.shared and shared:
            break  # what is left of a shared device is known only after the first has its part
        if stopped is not None and _are_alike(job, stopped):
            continue
        if round_.is_full:
            break
        found = round_.consider(job)
        if found is None:
            stopped = job
        else:
            starts.append(found)
            shared = shared or job.need.shared
            if len(starts) >= MOST_STARTS:
                break
    return DispatchPlan(tuple(starts), tuple(round_.blocked))


def _are_alike(one: QueuedJob, other: QueuedJob) -> bool:
    """Whether two jobs are alike; in a long queue most have the very same need."""
    return one.need is other.need and one.lasts_seconds == other.lasts_seconds


class _Round:
    """One pass over the jobs, which collects those that start and those that block others."""

    def __init__(
        self,
        capacities: Sequence[DeviceCapacity],
        at: float,
        promised: AbstractSet[str],
        link_weight: float,
        booked: Booked,
    ) -> None:
        self._booked = booked
        self._capacities, self._at, self._link_weight = capacities, at, link_weight
        self._taken = set(promised)
        self._open = {c.uuid for c in capacities if not _is_whole(c)} - self._taken
        self.blocked: list[BlockedJob] = []
        self._hopeless: set[tuple[Need, float | None]] = set()
        self._known: set[tuple[frozenset[str], float | None]] = set()

    @property
    def is_full(self) -> bool:
        """Whether no further job could start: nothing is free, the first that wait are known."""
        return not self._open - self._taken and len(self.blocked) >= MOST_BLOCKED

    def consider(self, job: QueuedJob) -> PlannedStart | None:
        alike = (job.need, job.lasts_seconds)
        if alike in self._hopeless:  # what stopped another one stops this one
            return None
        barred = self._barred(job.lasts_seconds)
        taken = self._taken | barred
        group = pick(self._capacities, job.need, taken, job.order, self._link_weight)
        if group:
            uuids = tuple(capacity.uuid for capacity in group)
            self._taken.update(uuids)
            return PlannedStart(job.number, uuids, tuple(one.number for one in self.blocked))
        self._hopeless.add(alike)
        self._block(job, barred)
        return None

    def _barred(self, lasts_seconds: float | None) -> set[str]:
        """Returns the devices that jobs ahead and reservations withhold from a job of this
        length."""
        withheld = (one.hoped for one in barring(self.blocked, lasts_seconds, self._at))
        gaps = ((uuid, first_gap(s, self._at, lasts_seconds)) for uuid, s in self._booked.items())
        reserved = {uuid for uuid, start in gaps if start > self._at}
        return reserved.union(*withheld)

    def _block(self, job: QueuedJob, barred: set[str]) -> None:
        """Adds a blocked job; one that can never start here holds nothing."""
        found = blocked_job(job, self.blocked, self._capacities, self._at, self._booked)
        behind = next(
            (one.number for one in self.blocked if one.hoped & found.hoped & barred), None
        )
        if not found.hoped or (found.hoped, found.could_start) not in self._known:
            self._known.add((found.hoped, found.could_start))
            self.blocked.append(replace(found, behind=behind))


def blocked_job(
    job: QueuedJob,
    ahead: Sequence[BlockedJob],
    capacities: Sequence[DeviceCapacity],
    at: float,
    booked: Booked = {},  # noqa: B006 - never changed
) -> BlockedJob:
    """Returns a job that cannot start now, with the devices it could use and when.

    A device that jobs ahead withhold from it is not free for it before these could start.
    """
    if not can_come(capacities, job.need):
        return BlockedJob(job.number)
    hoped = frozenset(c.uuid for c in capacities if hopeful(c, job.need))
    bars = barring(ahead, job.lasts_seconds, at)
    moment = could_start(capacities, job, at, bars, booked)
    return BlockedJob(job.number, hoped, None if moment == inf else moment)


def barring(
    ahead: Iterable[BlockedJob], lasts_seconds: float | None, at: float
) -> list[BlockedJob]:
    """Returns the jobs ahead whose devices a job of this length must not take."""
    return [one for one in ahead if not ends_in_time(lasts_seconds, one.could_start, at)]


def _is_whole(capacity: DeviceCapacity) -> bool:
    """Whether a lease has all of a device."""
    shares = (tenant.share for tenant in capacity.tenants)
    return any(share is None or share.memory_bytes is None for share in shares)


def ends_in_time(lasts_seconds: float | None, moment: float | None, at: float) -> bool:
    """Whether a job that starts now has ended when another one could start."""
    return lasts_seconds is not None and moment is not None and at + lasts_seconds <= moment


def could_start(
    capacities: Sequence[DeviceCapacity],
    job: QueuedJob,
    at: float,
    bars: Iterable[BlockedJob] = (),
    booked: Booked = {},  # noqa: B006 - never changed
) -> float:
    """Returns the earliest start by the limits of leases and by what is reserved for others;
    infinite if some have none."""
    need = job.need
    barred_until: dict[str, float] = {}
    for one in bars:
        moment = inf if one.could_start is None else one.could_start
        barred_until |= {uuid: max(moment, barred_until.get(uuid, at)) for uuid in one.hoped}
    ready = (
        (c.uuid, max(_free_at(c, need, at), barred_until.get(c.uuid, at)))
        for c in capacities
        if hopeful(c, need)
    )
    moments = sorted(
        first_gap(booked.get(uuid, ()), moment, job.lasts_seconds) for uuid, moment in ready
    )
    return moments[need.least - 1] if len(moments) >= need.least else inf


def _free_at(capacity: DeviceCapacity, need: Need, at: float) -> float:
    found = obstacle(capacity, need)
    if found is None:
        return at
    if found.kind not in HELD or not capacity.tenants:
        return inf
    ends = (t.claim.lease.until if t.claim.lease else None for t in capacity.tenants)
    return max(at, min(inf if end is None else end for end in ends))
