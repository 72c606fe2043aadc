"""Which items are next, which are retried and when, and when a map is over."""

import heapq
from collections import deque
from collections.abc import Sequence

from msgspec import Struct, field

from andon.failures.rules.backoff import BackOff
from andon.model.run.record import ItemState
from andon.units import counted
from andon.work.rules.map.items import MapItem

BACK_OFF = BackOff(first_seconds=1.0, most_seconds=60.0, at_once=0)


class MapPolicy(Struct, frozen=True):
    """How often an item is tried, and when the whole map is given up."""

    retries: int = 0
    most_failures: int | None = None


class MapUnit(Struct, frozen=True):
    """What one call works on."""

    items: tuple[MapItem, ...]
    attempt: int = 1


class MapPlan(Struct):
    """The items of a map. Callers in several threads need a lock."""

    items: Sequence[MapItem]
    policy: MapPolicy = field(default_factory=MapPolicy)
    per_call: int = 1
    done: int = 0
    failed: int = 0
    running: int = 0  # items, not calls
    stopped: str | None = None  # why no item is begun any more
    _next: deque[MapUnit] = field(default_factory=deque)
    _later: list[tuple[float, int, MapUnit]] = field(default_factory=list)
    _order: int = 0

    def __post_init__(self) -> None:
        self._next.extend(map(MapUnit, self.units))

    @property
    def units(self) -> tuple[tuple[MapItem, ...], ...]:
        """Returns the items of each call."""
        size = max(1, self.per_call)
        places = range(0, len(self.items), size)
        return tuple(tuple(self.items[place : place + size]) for place in places)

    @property
    def waiting(self) -> int:
        """Returns how many calls are still to be made, now or later."""
        return 0 if self.stopped else len(self._next) + len(self._later)

    @property
    def over(self) -> bool:
        return not self.running and not self.waiting

    @property
    def untouched(self) -> int:
        """Returns how many items have neither succeeded nor failed, nor are being worked on."""
        return len(self.items) - self.done - self.failed - self.running

    def take(self, now: float) -> MapUnit | None:
        """Returns the next call, if one is due."""
        if self.stopped:
            return None
        unit = None
        if self._later and self._later[0][0] <= now:
            unit = heapq.heappop(self._later)[2]
        elif self._next:
            unit = self._next.popleft()
        if unit is not None:
            self.running += len(unit.items)
        return unit

    def begun(self, unit: MapUnit) -> None:
        """Counts a call that a worker has taken on its own."""
        self.running += len(unit.items)

    def due_seconds(self, now: float) -> float | None:
        """Returns the time until the next call is due; None if none is to be made."""
        if not self.waiting:
            return None
        return 0.0 if self._next else max(0.0, self._later[0][0] - now)

    def ended(self, unit: MapUnit, ok: bool, now: float) -> ItemState:
        """Returns the new state of a unit: done, to be retried, or failed."""
        self.running -= len(unit.items)
        if ok:
            self.done += len(unit.items)
            return ItemState.OK
        if unit.attempt <= self.policy.retries and not self.stopped:
            at = now + BACK_OFF.seconds(unit.attempt)
            self._order += 1
            again = MapUnit(unit.items, unit.attempt + 1)
            heapq.heappush(self._later, (at, self._order, again))
            return ItemState.RETRY
        self.failed += len(unit.items)
        most = self.policy.most_failures
        if most is not None and self.failed >= most and not self.stopped:
            failed = counted(self.failed, "item")
            self.stop(f"{failed} failed, which is the limit of --max-failures")
        return ItemState.FAILED

    def returned(self, unit: MapUnit) -> None:
        """Returns a unit to the queue because its device was taken away before it ran."""
        self.running -= len(unit.items)
        self._next.appendleft(unit)

    def stop(self, why: str) -> None:
        """Starts no further items; running ones continue."""
        self.stopped = self.stopped or why
