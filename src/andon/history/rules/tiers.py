"""Retention: what to pack, roll up and delete, and which tier answers a query."""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import groupby, islice, pairwise
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from andon.history.rules.codec import SeriesRow, merged

DAY_SECONDS = 86_400.0
LEAST_RAW_SECONDS = 3 * 3600.0  # a size limit never shortens it below this
MOST_WINDOWS = 16  # per plan: a clock that was once at 1970 must not plan years


class Tier(IntEnum):
    """The resolution of stored history."""

    RAW = 0
    MINUTE = 1
    HOUR = 2


StoredBlock = tuple[str, str, Tier, int, bytes]
"""Device, metric, tier, the start of its window, and its bytes."""
STEP_MS = {Tier.RAW: 0, Tier.MINUTE: 60_000, Tier.HOUR: 3_600_000}
"""The length of one row; a raw row is an instant."""
WINDOW_MS = {Tier.RAW: 600_000, Tier.MINUTE: 120 * 60_000, Tier.HOUR: 240 * 3_600_000}
"""The length of one block. Windows start at multiples of it; a longer one holds whole ones."""


class Retention(Struct, frozen=True):
    """How long each tier is kept, and the maximum total size."""

    raw_seconds: float = 7 * DAY_SECONDS
    minute_seconds: float = 90 * DAY_SECONDS
    hour_seconds: float = 730 * DAY_SECONDS
    most_bytes: int = 250_000_000

    def of(self, tier: Tier) -> float:
        return (self.raw_seconds, self.minute_seconds, self.hour_seconds)[tier]


class Extent(Struct, frozen=True):
    """The time from which and until which a tier has blocks; there may be gaps between."""

    since_ms: int
    until_ms: int


Extents = Mapping[Tier, Extent]


class StoreContents(Struct, frozen=True):
    """What a store holds, as far as its maintenance needs to know."""

    unpacked: tuple[int, ...] = ()
    """The windows of the finest tier in which there are ticks."""
    extents: Extents = field(default_factory=dict)
    used_bytes: int = 0
    """Without space that is only waiting to be used again."""
    most_bytes: int | None = None
    """A limit of its own, such as that of memory."""


class DueRoll(NamedTuple):
    """A window to create, and the time up to which the tier below is complete."""

    tier: Tier
    begin: int
    complete: int


class UpkeepPlan(Struct, frozen=True):
    """The maintenance that is due now."""

    pack: tuple[int, ...] = ()
    """The windows whose ticks need packing."""
    shorten: tuple[Tier, ...] = ()
    """Tiers that claim to be complete up to a time to come, as the clock was once ahead."""
    roll: tuple[DueRoll, ...] = ()
    """Windows to create from the tier below."""
    delete: tuple[tuple[Tier, int], ...] = ()
    """Tiers, and the time before which their blocks are deleted."""
    forget: float = 0.0
    """The time before which intervals of use are deleted."""


class Maintenance(Struct, frozen=True):
    """The maintenance that was done."""

    packed_ticks: int = 0
    packed_blocks: int = 0
    shortened_tiers: int = 0
    rolled_blocks: int = 0
    empty_windows: int = 0
    deleted_blocks: int = 0
    deleted_uses: int = 0
    damaged_blocks: int = 0
    freed_bytes: int = 0

    def plus(self, other: "Maintenance") -> "Maintenance":
        return Maintenance(
            *(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__)
        )

    @property
    def idle(self) -> bool:
        return self == Maintenance()


class Segment(Struct, frozen=True):
    """A time span, and the tier to read it from."""

    tier: Tier
    since_ms: int
    until_ms: int


def window(tier: Tier, at_ms: int) -> int:
    """Returns the start of the window that contains an instant."""
    return at_ms - at_ms % WINDOW_MS[tier]


def plan(now: float, held: StoreContents, retention: Retention) -> UpkeepPlan:
    """Returns what is due; less is kept if the store is too large."""
    now_ms, extents = int(now * 1000), held.extents
    retention = squeezed(now, retention, held)
    pack = tuple(sorted(w for w in held.unpacked if w + WINDOW_MS[Tier.RAW] <= now_ms))
    forget = now - retention.hour_seconds
    if shorten := tuple(_ahead(now_ms, extents)):
        return UpkeepPlan(pack, shorten, forget=forget)
    complete = min(pack, default=now_ms)
    minutes = tuple(islice(_unrolled(Tier.MINUTE, complete, extents), MOST_WINDOWS))
    complete = min((complete, *(due.begin for due in minutes)))
    hours = tuple(islice(_unrolled(Tier.HOUR, complete, extents), MOST_WINDOWS))
    expired = tuple(_expired(now_ms, extents, retention))
    return UpkeepPlan(pack, (), (*minutes, *hours), expired, forget)


def _ahead(now_ms: int, extents: Extents) -> Iterator[Tier]:
    """Yields tiers with data in the future, if there is older data to make them from."""
    for tier in (Tier.MINUTE, Tier.HOUR):
        below, own = extents.get(Tier(tier - 1)), extents.get(tier)
        if below is not None and own is not None and below.since_ms < now_ms < own.until_ms:
            yield tier


def _unrolled(tier: Tier, complete_ms: int, extents: Extents) -> Iterator[DueRoll]:
    """Yields windows that this tier lacks and the tier below can provide; windows before
    `complete_ms` are not examined again."""
    below, own = extents.get(Tier(tier - 1)), extents.get(tier)
    if below is None:
        return
    begin = own.until_ms if own else window(tier, below.since_ms)
    begin = max(begin, window(tier, below.since_ms))
    while begin + WINDOW_MS[tier] <= complete_ms and begin < below.until_ms:
        yield DueRoll(tier, begin, complete_ms)
        begin += WINDOW_MS[tier]


def _expired(now_ms: int, extents: Extents, retention: Retention) -> Iterator[tuple[Tier, int]]:
    """Yields what to delete: only whole windows, and never before they are rolled up."""
    for tier, extent in sorted(extents.items()):
        before = window(tier, now_ms - int(retention.of(tier) * 1000))
        if tier is not Tier.HOUR:
            above = extents.get(Tier(tier + 1))
            before = min(before, above.until_ms if above else 0)
        if before > extent.since_ms:
            yield tier, before


def rolled_until(due: DueRoll, next_below: int | None = None) -> int:
    """Returns up to when a tier is complete once a window of it was made.

    If it was empty, `next_below` is the next block of the tier below: the windows before that
    are empty, too, and years with the clock at 1970 need not be visited one by one. A block from
    when the clock was ahead may lie beyond what is complete.
    """
    end = due.begin + WINDOW_MS[due.tier]
    if next_below is None:
        return end
    return max(end, window(due.tier, min(next_below, due.complete)))


def squeezed(now: float, retention: Retention, held: StoreContents) -> Retention:
    """Returns a shorter retention if the size limit is exceeded; the finest tier shrinks first."""
    most_bytes = min(retention.most_bytes, held.most_bytes or retention.most_bytes)
    if held.used_bytes <= most_bytes:
        return retention
    share = 0.9 * most_bytes / held.used_bytes
    raw = share * _held_seconds(Tier.RAW, now, retention, held.extents)
    if raw > LEAST_RAW_SECONDS:
        return replace(retention, raw_seconds=raw)
    minute = share * _held_seconds(Tier.MINUTE, now, retention, held.extents)
    return replace(retention, raw_seconds=LEAST_RAW_SECONDS, minute_seconds=minute)


def _held_seconds(tier: Tier, now: float, retention: Retention, extents: Extents) -> float:
    """Returns how far back a tier actually reaches, at most its retention."""
    since_ms = extents[tier].since_ms if tier in extents else now * 1000
    return min(retention.of(tier), now - since_ms / 1000)


def segments(since_ms: int, until_ms: int, step_ms: float, extents: Extents) -> list[Segment]:
    """Returns which tier to read for each span: the coarsest that is fine enough, else any."""
    edges = {since_ms, until_ms}
    for extent in extents.values():
        edges |= {extent.since_ms, extent.until_ms}
    ordered = sorted(edge for edge in edges if since_ms <= edge <= until_ms)
    found: list[Segment] = []
    for begin, end in pairwise(ordered):
        tier = _best(begin, end, step_ms, extents)
        if tier is None:
            continue
        if found and found[-1].tier is tier and found[-1].until_ms == begin:
            begin = found.pop().since_ms
        found.append(Segment(tier, begin, end))
    return found


def _best(begin: int, end: int, step_ms: float, extents: Extents) -> Tier | None:
    covering = [t for t, e in extents.items() if e.since_ms <= begin and end <= e.until_ms]
    fine = [tier for tier in covering if STEP_MS[tier] <= step_ms]
    if fine:
        return max(fine)
    return min(covering, default=None)


def rolled(rows: Sequence[SeriesRow], tier: Tier) -> list[SeriesRow]:
    """Returns the rows of a coarser tier; each starts on a whole minute or hour."""
    step = STEP_MS[tier]
    return [
        merged(group)._replace(at_ms=slot * step)
        for slot, found in groupby(rows, key=lambda row: row.at_ms // step)
        if (group := list(found))
    ]
