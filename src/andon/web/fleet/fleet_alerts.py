"""The alerts of a hub: those of its own machine and, while it leads, those of its nodes."""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from andon.alerts.rules.handover import HandedNotice
from andon.alerts.rules.past import Query
from andon.alerts.watcher import Listener, Watcher
from andon.errors import AndonError, Gone, Unavailable
from andon.explain.conditions.condition import Precondition
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import OwnTrouble
from andon.failures.listeners import Listeners
from andon.failures.log import FailureLog
from andon.model.alert import Alert, Silence
from andon.model.device import Snapshot
from andon.ports import AlertStore, NodePasts
from andon.sampling.bus import Subscription
from andon.web.fleet.failures import NodeFailures
from andon.web.fleet.report import notices_in

log = logging.getLogger("andon.hub")

FLEET = "@fleet"
"""The name under which hubs share the state of these alerts; no node can have it."""
INTERVAL_SECONDS = 5.0
Troubles = Callable[[], Sequence[OwnTrouble]]
OpenFleetWatcher = Callable[
    [Subscription, Callable[[], AlertStore], Troubles, Callable[[], bool]], Watcher
]


class _LeadersStore:
    """The shared state of the alerts, which only the hub that leads may write."""

    def __init__(self, store: AlertStore, leads: Callable[[], bool]) -> None:
        self._store, self._leads = store, leads
        self.load, self.episodes, self.prune = store.load, store.episodes, store.prune

    def save(self, *page: Any) -> None:
        if not self._leads():
            raise Unavailable("another hub notifies people now")
        self._store.save(*page)

    def close(self) -> None:
        """Does nothing: the hub closes its connections."""


class FleetAlerts:
    """The alerts of a hub's machine and, while it leads, of its nodes. The next leader opens the
    watcher of the nodes with the same state, so that nobody is notified twice."""

    def __init__(
        self, own: Watcher, node: str, pasts: Callable[[], NodePasts], opener: OpenFleetWatcher
    ) -> None:
        self._own, self._node, self._pasts, self._opener = own, node, pasts, opener
        self._fleet: Watcher | None = None
        self._session: Subscription | None = None
        self._troubles: Sequence[OwnTrouble] = ()
        self._renews = False
        self._failures = NodeFailures()
        self.waiting: tuple[str, float] | None = None
        """Whose notice waits longest to be sent, and since when on the monotonic clock."""
        self._listeners: Listeners[[tuple[Alert, ...]]] = Listeners(
            FailureLog("andon.hub", "a listener failed; the others continue")
        )

    # For the leader duties.

    def lead(self, leads: bool) -> None:
        """Opens or closes the watcher that notifies people about nodes."""
        renews, self._renews = self._renews, False
        if renews and leads:
            self.lead(False)
        if leads and self._fleet is None:
            self._session = Subscription(INTERVAL_SECONDS, False, 4, lambda: None)
            self._fleet = self._opener(
                self._session, self._open, lambda: self._troubles, self._leads
            )
            self._fleet.subscribe(self._listeners.notify)
        elif not leads and self._fleet is not None:
            gone, self._fleet, self._session, self.waiting = self._fleet, None, None, None
            gone.close()

    def renew(self) -> None:
        """Has the watcher opened again, as its settings have changed."""
        self._renews = True

    def relay(self) -> bool:
        """Sends one heartbeat's notices of each node; only then they are forgotten. Returns whether
        there were some: more may wait."""
        pasts, given = self._pasts(), list[HandedNotice]()
        read = pasts.news()
        self.waiting = (self.waiting or (read[0].node, time.monotonic())) if read else None
        for beat in read:
            with self._failures.of(beat.node, "its notices are left out"):
                given += notices_in(beat)
        if not read or self._fleet is None or not self._fleet.relay(given):
            return False
        pasts.drop_news(read)
        self.waiting = None
        return True

    def judge(self, troubles: Sequence[OwnTrouble] | None) -> None:
        """Judges these troubles of nodes, or None: the ones judged last, as the present ones are
        unknown."""
        self._troubles = self._troubles if troubles is None else troubles
        if self._session is not None:
            self._session.put(Snapshot(self._node, time.time()), time.monotonic())

    def close(self) -> None:
        self.lead(False)

    # What is known, and what people say about it.

    @property
    def rulebook(self) -> Rulebook:
        return self._own.rulebook

    @property
    def awake(self) -> frozenset[Precondition]:
        return self._own.awake

    def alerts(self) -> tuple[Alert, ...]:
        return (*self._own.alerts(), *(one for each in self._led() for one in each.alerts()))

    def silences(self) -> tuple[Silence, ...]:
        return self._own.silences()

    def test(self, name: str | None = None) -> dict[str, AndonError | None]:
        return self._own.test(name)

    def past(self, query: Query | None = None) -> Sequence[Alert]:
        wanted = query or Query()
        found = [*self._own.past(wanted)]
        for one in self._led():
            found += one.past(wanted)
        return sorted(found, key=lambda alert: alert.since, reverse=True)[: wanted.limit]

    def find(self, number: str) -> Alert:
        return self._of(number).find(number)

    def acknowledge(self, number: str, by: str = "", note: str = "") -> Alert:
        return self._of(number).acknowledge(number, by, note)

    def unacknowledge(self, number: str) -> Alert:
        return self._of(number).unacknowledge(number)

    def silence(self, silence: Silence) -> Silence:
        for one in (self._own, *self._led()):
            one.silence(silence)
        return silence

    def unsilence(self, number: str) -> None:
        self._own.unsilence(number)
        for one in self._led():
            with suppress(Gone):
                one.unsilence(number)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        ends = ExitStack()
        ends.callback(self._own.subscribe(listener))
        ends.callback(self._listeners.add(listener))
        return ends.close

    def _led(self) -> tuple[Watcher, ...]:
        led = self._fleet  # the thread of the leader duties may end it meanwhile
        return () if led is None else (led,)

    def _of(self, number: str) -> Watcher:
        for one in self._led():
            if any(alert.id == number for alert in one.alerts()):
                return one
        return self._own

    def _open(self) -> AlertStore:
        return _LeadersStore(self._pasts().alerts(FLEET), lambda: self._pasts().leads())

    def _leads(self) -> bool:
        """Whether this hub leads at this moment, by the database."""
        try:
            return self._pasts().leads()
        except AndonError:
            return False
