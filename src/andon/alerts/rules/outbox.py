"""Pending deliveries per notifier: each sent once, none lost, all bounded."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from andon.alerts.rules.routes import Route, due, when_awake
from andon.model.alert import Alert, Level, Notice, NoticeKind
from andon.settings.moments import Offset

T = TypeVar("T")
MOST_DELIVERIES = 200  # for one notifier
MOST_AGE_SECONDS = 86_400.0  # older notices are of no use
CLOCK_SET_SECONDS = 30 * 86_400.0
MOST_OPEN = 1000
MOST_OF_NODE = 100  # of a hub's nodes
MOST_LATEST = 8


class DeliveryKey(NamedTuple):
    """Identifies a notice for one notifier."""

    notice: str
    notifier: str


class Delivery(Struct, frozen=True):
    """One notice that one notifier has to send, not before `due` (UTC)."""

    notice: Notice
    notifier: str
    due: float

    @property
    def key(self) -> DeliveryKey:
        return DeliveryKey(self.notice.id, self.notifier)

    def is_due(self, at: float) -> bool:
        return self.due <= at

    @property
    def is_end(self) -> bool:
        return self.notice.kind is NoticeKind.RESOLVED

    @property
    def needs_resolved_notice(self) -> bool:
        """Whether the recipient should later be notified of the end."""
        ends = self.notice.kind not in (NoticeKind.RESOLVED, NoticeKind.TEST)
        return ends and self.notice.alert.level is not Level.INFO


class Acceptance(NamedTuple):
    """What notifiers accepted about one alert: only that counts as notified."""

    times: int = 0
    at: float | None = None  # the last, UTC
    latest: tuple[str, ...] = ()  # ids of notices: one through two notifiers counts once

    def with_notice(self, notice: str, at: float) -> "Acceptance":
        if notice in self.latest:
            return self
        return Acceptance(self.times + 1, at, (*self.latest[-MOST_LATEST + 1 :], notice))


class SavedAlerts(NamedTuple):
    """What a store returns: the state and the pending deliveries."""

    state: Mapping[str, Any]
    deliveries: tuple[Delivery, ...]


NONE_ACCEPTED = Acceptance()


class Outbox(Struct, frozen=True):
    """The deliveries in order, which notifiers have reported which open alert, and how often."""

    deliveries: tuple[Delivery, ...] = ()
    informed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dropped: int = 0
    accepted: Mapping[str, Acceptance] = field(default_factory=dict)  # by alert

    def shown(self, alert: Alert) -> Alert:
        """Returns the alert with the number of its notices that notifiers have accepted."""
        found = self.accepted.get(alert.id, NONE_ACCEPTED)
        if (alert.notified, alert.last_notified) == found[:2]:
            return alert
        return replace(alert, notified=found.times, last_notified=found.at)

    def add(
        self, notices: Sequence[Notice], routes: Sequence[Route], at: float, offset: Offset
    ) -> "Outbox":
        """Adds new notices; one that is already there changes nothing."""
        box = self.retimed(routes, at, offset)
        for notice in notices:
            for route in routes:
                box = box._sent_to(route, notice, at, offset)
            if notice.kind is NoticeKind.RESOLVED:
                box = replace(box, informed=_without(box.informed, notice.alert.id))
        return box._bounded()

    def done(self, keys: Collection[DeliveryKey], at: float) -> "Outbox":
        """Returns the outbox after these were sent."""
        over = {(e.notice.alert.id, e.notifier) for e in self.deliveries if e.is_end}
        informed, accepted = dict(self.informed), dict(self.accepted)
        for delivery in self.deliveries:
            alert, name = delivery.notice.alert.id, delivery.notifier
            if delivery.key in keys:
                before = accepted.pop(alert, NONE_ACCEPTED)  # the newest last
                accepted[alert] = before.with_notice(delivery.notice.id, at)
            known = informed.get(alert, ())
            if (
                delivery.key in keys
                and delivery.needs_resolved_notice
                and (alert, name) not in over
            ):
                informed[alert] = known if name in known else (*known, name)
        remaining = tuple(e for e in self.deliveries if e.key not in keys)
        return replace(self, deliveries=remaining, informed=informed, accepted=latest(accepted))

    def ready(self, notifier: str, at: float) -> tuple[Delivery, ...]:
        """Returns what this notifier has to send now."""
        return tuple(e for e in self.deliveries if e.notifier == notifier and e.is_due(at))

    def count(self, notifier: str) -> int:
        """Returns how many deliveries wait for it, including those held back by quiet hours."""
        return sum(delivery.notifier == notifier for delivery in self.deliveries)

    def next_due(self, notifier: str) -> float | None:
        """Returns when its next delivery is due."""
        own = (e for e in self.deliveries if e.notifier == notifier)
        return min((e.due for e in own), default=None)

    def holds_back(self, notifier: str, at: float) -> frozenset[str]:
        """Returns the ids of the alerts with deliveries that are not due yet at this notifier."""
        return frozenset(
            e.notice.alert.id
            for e in self.deliveries
            if e.notifier == notifier and not e.is_due(at)
        )

    def retimed(self, routes: Sequence[Route], at: float, offset: Offset) -> "Outbox":
        """Returns the outbox with due times that fit the clock, which may have been set back: only
        present quiet hours delay a delivery."""
        known = {route.name: route for route in routes}

        def by_now(one: Delivery) -> Delivery:
            route = known.get(one.notifier)
            if one.is_due(at) or route is None:
                return one
            return replace(one, due=min(one.due, when_awake(route, one.notice, at, offset)))

        return replace(self, deliveries=tuple(map(by_now, self.deliveries)))

    def pruned(self, at: float, notifiers: Collection[str]) -> "Outbox":
        """Removes deliveries that are too old, or for notifiers that no longer exist."""
        remaining = tuple(
            e
            for e in self.deliveries
            if e.notifier in notifiers and not _is_old(at - max(e.notice.at, e.due))
        )
        return replace(
            self, deliveries=remaining, dropped=self.dropped + len(self.deliveries) - len(remaining)
        )

    def _sent_to(self, route: Route, notice: Notice, at: float, offset: Offset) -> "Outbox":
        if any(delivery.key == (notice.id, route.name) for delivery in self.deliveries):
            return self
        # What quiet hours still hold back for the same alert is out of date.
        earlier = self._of(route.name, notice.alert.id)
        current = tuple(e for e in self.deliveries if e not in earlier or e.is_due(at))
        if notice.kind is NoticeKind.RESOLVED:
            informed = route.name in self.informed.get(notice.alert.id, ())
            if not informed and not any(delivery.is_due(at) for delivery in earlier):
                return replace(self, deliveries=current)
            when: float | None = when_awake(route, notice, at, offset)
        else:
            when = due(route, notice, at, offset)
        if when is None:
            return self
        delivery = Delivery(notice, route.name, when)
        return replace(
            self, deliveries=(*(self.deliveries if delivery.due > at else current), delivery)
        )

    def _of(self, notifier: str, alert: str) -> tuple[Delivery, ...]:
        return tuple(
            e for e in self.deliveries if e.notifier == notifier and e.notice.alert.id == alert
        )

    def _bounded(self) -> "Outbox":
        counts: dict[str, int] = {}
        remaining: list[Delivery] = []
        for delivery in reversed(self.deliveries):
            counts[delivery.notifier] = counts.get(delivery.notifier, 0) + 1
            if counts[delivery.notifier] <= MOST_DELIVERIES:
                remaining.append(delivery)
        dropped = self.dropped + len(self.deliveries) - len(remaining)
        return replace(
            self,
            deliveries=tuple(reversed(remaining)),
            informed=latest(self.informed),
            dropped=dropped,
        )


def latest(known: Mapping[str, T]) -> dict[str, T]:
    """Returns the newest entries by alert; each node has a limited share."""
    counts, found = Counter[str](), list[str]()
    for alert in reversed([*known]):
        node = node_of(alert)
        counts[node] += 1
        if not node or counts[node] <= MOST_OF_NODE:
            found.append(alert)
    return {alert: known[alert] for alert in reversed(found[:MOST_OPEN])}


def node_of(alert: str) -> str:
    """Returns the node in the id of an alert; empty for an alert of this server itself."""
    return alert.partition("@")[0].rpartition(":")[0]


def _is_old(seconds: float) -> bool:
    """Whether a delivery is too old to send; a jump of months means that the clock was set, and
    does not count."""
    return MOST_AGE_SECONDS < seconds < CLOCK_SET_SECONDS


def _without(informed: Mapping[str, tuple[str, ...]], alert: str) -> dict[str, tuple[str, ...]]:
    return {known: names for known, names in informed.items() if known != alert}
