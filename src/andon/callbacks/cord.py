"""Callbacks on alerts: evaluates this node's alerts inside the program and calls a function.

cord = andon.on_alert(lambda alert: print(alert.message), level="critical")
...
cord.stop()
"""

import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Self

from andon.alerts.rules.commands import current
from andon.alerts.rules.state import EMPTY, StepResult
from andon.alerts.rules.state_machine import step
from andon.api import watch as library
from andon.app.thresholds import rulebook, with_thresholds
from andon.errors import Invalid
from andon.explain.conditions.catalogue import BY_NAME
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import Moment, Observation
from andon.failures.listeners import Listeners
from andon.failures.log import FailureLog
from andon.host.clock import clocks
from andon.model.alert import Alert, Level, Phase
from andon.model.device import Snapshot
from andon.sampling.bus import Subscription
from andon.sampling.follower import Follower


class AlertFilter:
    """Which alerts a program wants; by default those on devices visible to it."""

    def __init__(
        self,
        level: Level | str = Level.WARNING,
        rules: Collection[str] | None = None,
        devices: Collection[int | str] | None = None,
    ) -> None:
        mistakes = [f"there is no level {level}"] if level not in set(Level) else []
        mistakes += [f"there is no rule {rule}" for rule in rules or () if rule not in BY_NAME]
        if mistakes:
            raise Invalid(
                mistakes[0],
                hint="andon alerts rules lists the rules and levels",
                mistakes=tuple(mistakes),
            )
        self.level, self.rules, self.devices = Level(level), rules, devices

    def fits(self, alert: Alert, snapshot: Snapshot) -> bool:
        """Whether this alert matches the filter."""
        if alert.level.rank < self.level.rank:
            return False
        if self.rules is not None and alert.rule not in self.rules:
            return False
        status = next((s for s in snapshot.devices if s.device.uuid == alert.subject), None)
        if self.devices is not None:
            return alert.subject in self.devices or alert.device in self.devices
        return status is None or status.visible


class Cord(AbstractContextManager["Cord"]):
    """Evaluates every snapshot of a session in its own thread until it is stopped."""

    def __init__(
        self,
        session: Subscription,
        call: Callable[[Alert], object] | None = None,
        wanted: AlertFilter | None = None,
        book: Rulebook | None = None,
        clock: Callable[[], tuple[float, float]] = clocks,
    ) -> None:
        self._clock = clock
        self._calls: Listeners[[Alert]] = Listeners(
            FailureLog("andon", "the callback for an alert failed")
        )
        if call is not None:
            self._calls.add(call)
        self._wanted = wanted or AlertFilter()
        self._book = book or Rulebook()
        self._state = EMPTY
        self._reported: dict[str, Level] = {}
        self._changed = threading.Condition()
        self._stopped = False
        self._follower = Follower(
            session,
            self._evaluate,
            "andon cord",
            FailureLog("andon", "evaluating alerts failed; continuing with the next sample"),
        )
        _cords.add(self)

    def start(self) -> Self:
        self._follower.start()
        return self

    def stop(self) -> None:
        """Stops evaluating. May be called twice, and from the callback itself."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._follower.close()

    def firing(self, wanted: AlertFilter | None = None) -> tuple[Alert, ...]:
        """Returns the matching alerts that are firing, worst first."""
        state, wanted = self._state, wanted or self._wanted
        snapshot = state.snapshot
        if snapshot is None:
            return ()
        alerts = (a for a in current(state) if a.state is Phase.FIRING)
        return tuple(alert for alert in alerts if wanted.fits(alert, snapshot))

    def wait_until_calm(self, wanted: AlertFilter, longest_seconds: float) -> bool:
        """Waits until no matching alert is firing, the cord is stopped, or the timeout is over."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._stopped or not self.firing(wanted), longest_seconds
            )

    def _evaluate(self, snapshot: Snapshot) -> None:
        if self._stopped:
            return
        try:
            self.take(snapshot)
        except Exception:
            with self._changed:  # unknown: a loop must not wait for an alert that may be over
                self._state = EMPTY
                self._changed.notify_all()
            raise

    def take(self, snapshot: Snapshot) -> None:
        """Evaluates one snapshot, and calls the function for every change."""
        seen = Observation(snapshot, events=snapshot.events)
        outcome = step(self._state, seen, Moment(*self._clock()), self._book)
        with self._changed:
            self._state = outcome.state
            self._changed.notify_all()
        for alert in self._news(outcome, snapshot):
            self._calls.notify(alert)

    def _news(self, outcome: StepResult, snapshot: Snapshot) -> Iterator[Alert]:
        """Yields alerts that begin to fire, become worse, or were reported and end."""
        for alert in outcome.changed:
            before = self._reported.get(alert.id)
            if alert.state is Phase.RESOLVED:
                if self._reported.pop(alert.id, None) is not None:
                    yield alert
                continue
            worse = before is None or alert.level.rank > before.rank
            if alert.state is Phase.FIRING and worse and self._wanted.fits(alert, snapshot):
                self._reported[alert.id] = alert.level
                yield alert

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _forget(self) -> None:
        """Forgets the thread in a forked child: it is the parent's."""
        self._changed, self._stopped, self._state = threading.Condition(), True, EMPTY


def on_alert(
    call: Callable[[Alert], object],
    level: Level | str = Level.WARNING,
    rules: Collection[str] | None = None,
    devices: Collection[int | str] | None = None,
    interval_seconds: float = 1.0,
    thresholds: Mapping[str, float | str] | None = None,
) -> Cord:
    """Calls a function, in its own thread, when an alert of a device visible to this process fires,
    becomes worse or is resolved (`alert.state` says which). `stop()` ends it.

    `thresholds` are by the names of the settings: `{"thermal_celsius": 75}`.
    """
    return this_node(AlertFilter(level, rules, devices), interval_seconds, call, thresholds).start()


def this_node(
    wanted: AlertFilter,
    interval_seconds: float,
    call: Callable[[Alert], object] | None = None,
    thresholds: Mapping[str, float | str] | None = None,
) -> Cord:
    """Returns a cord for this node, not yet started, with its settings' thresholds and these."""
    shared = library.shared()
    book = rulebook(with_thresholds(shared.settings, thresholds or {}))
    session = shared.subscribe(interval_seconds, False)
    return Cord(session, call, wanted, book)


_cords: weakref.WeakSet[Cord] = weakref.WeakSet()


def _in_child() -> None:
    for cord in list(_cords):
        cord._forget()


library.after_fork(_in_child)
