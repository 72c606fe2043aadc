"""What is still to be told to whom: nothing is told twice, nothing is forgotten, all is bounded."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from andon.core.notifying.routes import Offset, Route, due, when_quiet_ends
from andon.model.alert import Notice, NoticeKind

MOST_ERRANDS = 200  # for one notifier
MOST_AGE_SECONDS = 86_400.0  # yesterday's news helps nobody
CLOCK_SET_SECONDS = 30 * 86_400.0
MOST_OPEN = 1000


class ErrandKey(NamedTuple):
    """A notice on its way to one notifier."""

    notice: str
    notifier: str


@dataclass(frozen=True, slots=True)
class Errand:
    """One notice that one notifier has to tell, and not before `due` (UTC)."""

    notice: Notice
    notifier: str
    due: float

    @property
    def key(self) -> ErrandKey:
        return ErrandKey(self.notice.id, self.notifier)

    def is_due(self, at: float) -> bool:
        """What nobody held back is due whatever the clock says: it may have been set back."""
        return self.due <= max(at, self.notice.at)

    @property
    def is_end(self) -> bool:
        return self.notice.kind is NoticeKind.RESOLVED

    @property
    def is_news(self) -> bool:
        """Whether somebody who was told this waits to hear of the end."""
        return self.notice.kind not in (NoticeKind.RESOLVED, NoticeKind.TEST)


class Saved(NamedTuple):
    """What a ledger gives back: the state, and what was still to be told."""

    state: Mapping[str, Any]
    errands: tuple[Errand, ...]


@dataclass(frozen=True, slots=True)
class Outbox:
    """The errands in order, and which notifiers told of which alert that is not over."""

    errands: tuple[Errand, ...] = ()
    informed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dropped: int = 0

    def add(
        self, notices: Sequence[Notice], routes: Sequence[Route], at: float, offset: Offset
    ) -> "Outbox":
        """Take up new notices; one that is there already changes nothing."""
        box = self
        for notice in notices:
            for route in routes:
                box = box._sent_to(route, notice, at, offset)
            if notice.kind is NoticeKind.RESOLVED:
                box = replace(box, informed=_without(box.informed, notice.alert.id))
        return box._bounded()

    def done(self, keys: Collection[ErrandKey]) -> "Outbox":
        """After these were told."""
        over = {(e.notice.alert.id, e.notifier) for e in self.errands if e.is_end}
        informed = dict(self.informed)
        for errand in self.errands:
            alert, name = errand.notice.alert.id, errand.notifier
            known = informed.get(alert, ())
            if errand.key in keys and errand.is_news and (alert, name) not in over:
                informed[alert] = known if name in known else (*known, name)
        kept = tuple(e for e in self.errands if e.key not in keys)
        return replace(self, errands=kept, informed=informed)

    def ready(self, notifier: str, at: float) -> tuple[Errand, ...]:
        """What this notifier is to tell now."""
        return tuple(e for e in self.errands if e.notifier == notifier and e.is_due(at))

    def count(self, notifier: str) -> int:
        """How much waits for it, what quiet hours hold back included."""
        return sum(errand.notifier == notifier for errand in self.errands)

    def next_due(self, notifier: str) -> float | None:
        """When there is next something for it."""
        own = (e for e in self.errands if e.notifier == notifier)
        return min((0.0 if e.is_due(0.0) else e.due for e in own), default=None)

    def holds_back(self, notifier: str, at: float) -> frozenset[str]:
        """The alerts that this notifier must not hear of yet."""
        return frozenset(
            e.notice.alert.id for e in self.errands if e.notifier == notifier and not e.is_due(at)
        )

    def pruned(self, at: float, notifiers: Collection[str]) -> "Outbox":
        """Without what is too old, and without notifiers that are not there any more."""
        kept = tuple(
            e
            for e in self.errands
            if e.notifier in notifiers and not _is_old(at - max(e.notice.at, e.due))
        )
        return replace(self, errands=kept, dropped=self.dropped + len(self.errands) - len(kept))

    def _sent_to(self, route: Route, notice: Notice, at: float, offset: Offset) -> "Outbox":
        if any(errand.key == (notice.id, route.name) for errand in self.errands):
            return self
        # What quiet hours still hold back of the same alert is out of date by now.
        earlier = self._of(route.name, notice.alert.id)
        current = tuple(e for e in self.errands if e not in earlier or e.is_due(at))
        if notice.kind is NoticeKind.RESOLVED:
            knows = route.name in self.informed.get(notice.alert.id, ())
            if not knows and not any(errand.is_due(at) for errand in earlier):
                return replace(self, errands=current)
            when: float | None = when_quiet_ends(route, at, offset)
        else:
            when = due(route, notice, at, offset)
        if when is None:
            return self
        errand = Errand(notice, route.name, when)
        return replace(self, errands=(*(self.errands if errand.due > at else current), errand))

    def _of(self, notifier: str, alert: str) -> tuple[Errand, ...]:
        return tuple(
            e for e in self.errands if e.notifier == notifier and e.notice.alert.id == alert
        )

    def _bounded(self) -> "Outbox":
        counts: dict[str, int] = {}
        kept: list[Errand] = []
        for errand in reversed(self.errands):
            counts[errand.notifier] = counts.get(errand.notifier, 0) + 1
            if counts[errand.notifier] <= MOST_ERRANDS:
                kept.append(errand)
        informed = dict(list(self.informed.items())[-MOST_OPEN:])
        dropped = self.dropped + len(self.errands) - len(kept)
        return replace(self, errands=tuple(reversed(kept)), informed=informed, dropped=dropped)


def _is_old(seconds: float) -> bool:
    """Too old to be told; a leap of months is a clock that was set, and says nothing."""
    return MOST_AGE_SECONDS < seconds < CLOCK_SET_SECONDS


def _without(informed: Mapping[str, tuple[str, ...]], alert: str) -> dict[str, tuple[str, ...]]:
    return {known: names for known, names in informed.items() if known != alert}


def validate(box: Outbox) -> None:
    """What is true of every outbox."""
    keys = [errand.key for errand in box.errands]
    assert len(keys) == len(set(keys)), "an errand is there twice"
    assert all(box.count(e.notifier) <= MOST_ERRANDS for e in box.errands)
    assert box.dropped >= 0
    assert len(box.informed) <= MOST_OPEN
