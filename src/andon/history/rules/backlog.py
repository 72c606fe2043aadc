"""Data waiting to be written, and how much of it is kept while the store fails."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import NodeReadings
from andon.model.device import Device

MOST_TICKS = 600  # ten minutes at one sample a second: about 6 MB with eight devices
MOST_USES = 2000
UPKEEP_SECONDS = 60.0
SIZE_SECONDS = 60.0  # between two measurements of the store's size


class RecorderHealth(Struct, frozen=True):
    """The state of recording."""

    ok: bool
    reason: str | None = None
    hint: str | None = None
    since: float | None = None
    """When it started to fail; UTC."""
    buffered_snapshots: int = 0
    dropped_snapshots: int = 0
    written_snapshots: int = 0
    flushed: float | None = None
    """When something was last committed; UTC."""
    size_bytes: int | None = None
    """Of the store, measured once a minute; None before the first time."""


class Backlog(Struct, frozen=True):
    """What is not committed yet. Times are monotonic."""

    ticks: tuple[NodeReadings, ...] = ()
    used: tuple[NodeReadings, ...] = ()
    """What was used between ticks."""
    uses: Mapping[tuple[object, ...], UsageInterval] = field(default_factory=dict)
    devices: tuple[Device, ...] = ()
    dropped: int = 0
    written: int = 0
    tried: float = float("-inf")

    def add(
        self,
        tick: NodeReadings,
        uses: Sequence[UsageInterval],
        devices: tuple[Device, ...],
        used: Sequence[NodeReadings] = (),
    ) -> "Backlog":
        """Adds a tick; when full, the oldest is dropped."""
        ticks = (*self.ticks, tick)
        return replace(
            self.lengthened(uses),
            ticks=ticks[-MOST_TICKS:],
            used=(*self.used, *used)[-MOST_TICKS:],
            devices=devices,
            dropped=self.dropped + max(0, len(ticks) - MOST_TICKS),
        )

    def lengthened(self, uses: Sequence[UsageInterval]) -> "Backlog":
        """Returns the backlog with these intervals, which replace their earlier versions."""
        if not uses:
            return self
        waiting: dict[tuple[object, ...], UsageInterval] = dict(self.uses)
        waiting |= {(*use.identity, use.first): use for use in uses}
        if len(waiting) > MOST_USES:
            waiting = dict(list(waiting.items())[-MOST_USES:])
        return replace(self, uses=waiting)

    def due(self, flush_seconds: float, retry_at: float) -> float:
        """Returns when to write next: at the next flush, or later after failures."""
        return max(self.tried + flush_seconds, retry_at)

    def flushed(self, now: float) -> "Backlog":
        """Returns the backlog after everything was committed."""
        return replace(
            self, ticks=(), used=(), uses={}, written=self.written + len(self.ticks), tried=now
        )

    def failed(self, now: float) -> "Backlog":
        """Returns the backlog after a failed attempt."""
        return replace(self, tried=now)
