"""Evaluates every sample for alerts, stores them, and notifies people."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from msgspec.structs import replace

from andon.alerts.rules import commands
from andon.alerts.rules.alerts_from_sample import lasting
from andon.alerts.rules.commands import current, raised
from andon.alerts.rules.handover import (
    HUB_ROUTE,
    Duty,
    HandedNotice,
    handed,
    relayed,
    sendable,
    still_open,
    taken,
)
from andon.alerts.rules.listing import entries
from andon.alerts.rules.messages import trial_notice
from andon.alerts.rules.outbox import Acceptance, Delivery, Outbox, SavedAlerts
from andon.alerts.rules.past import Query, is_stored
from andon.alerts.rules.persistence import dump, restore
from andon.alerts.rules.routes import Route, resolved
from andon.alerts.rules.state import EMPTY, AlertState, StepResult
from andon.alerts.rules.state_machine import step
from andon.alerts.sender import NotifierWork, NotifierWorker
from andon.alerts.waits import USUAL, AlertWaits
from andon.alerts.writer import AlertWriter
from andon.errors import AndonError, Gone
from andon.explain.conditions.condition import READINGS, SERVED, Precondition
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import Moment, Observation, OwnTrouble
from andon.failures.listeners import Listeners
from andon.failures.log import FailureLog
from andon.host.clock import clocks
from andon.leases.rules.broken_devices import BROKEN_RULES, reported_broken
from andon.leases.rules.occupants import BLANK, BookView
from andon.model.alert import Alert, Notice, Phase, Silence
from andon.model.codec import read_valid, to_json
from andon.model.device import SAMPLER, DeviceStatus, Fault, Snapshot
from andon.ports import AlertStore, Notifier
from andon.sampling.bus import Subscription
from andon.sampling.follower import Follower
from andon.settings.moments import Offset
from andon.units import human_seconds

log = logging.getLogger("andon.watcher")

SAVE_SECONDS = 30.0  # changes that are not news, such as values, are written this often
NO_READINGS = Fault(SAMPLER, "no reading has arrived")
TEST_SECONDS = 45.0
HELD_SECONDS = 1.0  # until a notifier looks again whether it may send what another sends now

Listener = Callable[[tuple[Alert, ...]], None]
RoutedNotifier = tuple[Notifier, Route]
Rendered = tuple[AlertState, Outbox, tuple[Alert, ...]]


class Watcher:
    """One thread between a session of the sampler, the alert store and the notifiers.

    No lock is held while waiting for a disk or a notifier.
    """

    def __init__(
        self,
        subscription: Subscription,
        rulebook: Rulebook,
        open_store: Callable[[], AlertStore],
        notifiers: Sequence[RoutedNotifier] = (),
        offset: Offset = lambda at: 0.0,
        boot: str | None = None,
        self_checks: Callable[[], Sequence[OwnTrouble]] = tuple,
        waits: AlertWaits = USUAL,
        book: Callable[[], BookView | None] | None = None,
        has_hub: bool = False,
        leads: Callable[[], bool] | None = None,
        clock: Callable[[], tuple[float, float]] = clocks,
    ) -> None:
        """`self_checks` returns problems of andon itself, `book` the state of the lease book. With
        `has_hub` a hub notifies people while it answers. `leads` is for the alerts of a fleet:
        whether this hub notifies people; another watcher evaluates the hub's own parts."""
        self.rulebook = rulebook
        self._waits, self._clock = waits, clock
        self._offset, self._boot = offset, boot
        self._self_checks, self._book, self._leads = self_checks, book, leads
        self._duty = Duty(time.monotonic()) if has_hub else None
        self._open_elsewhere: tuple[Alert, ...] = ()
        self._reported: float | None = None
        routes = tuple(route for _, route in notifiers)
        self._routes = (*routes, HUB_ROUTE) if has_hub else routes
        self._lock = threading.Lock()
        self._state: AlertState = EMPTY
        self._outbox = Outbox()
        self._rendered: Rendered = (self._state, self._outbox, ())
        self._last: Snapshot | None = None
        self._received = self._written = time.monotonic()
        self._caught_up = False
        self._started = threading.Event()
        """Set once the saved state is restored: what was decided before that would be lost."""
        self._listeners: Listeners[[tuple[Alert, ...]]] = Listeners(
            FailureLog("andon.watcher", "a listener failed; the others continue")
        )
        self._writer = AlertWriter(open_store, waits)
        self._workers = {notifier.name: self._worker(notifier) for notifier, _ in notifiers}
        self._recipients = frozenset(route.name for route in self._routes)
        self._follower = Follower(
            subscription,
            self._turn,
            "watcher",
            FailureLog(
                "andon.watcher", "evaluating alerts failed; continuing with the next sample"
            ),
            idle_seconds=lambda: waits.turn,
            idle=self._turn,
            begin=self._begin,
        )
        self._follower.start()

    def _worker(self, notifier: Notifier) -> NotifierWorker:
        return NotifierWorker(notifier, self._work, self._settle, self._delivered, self._waits)

    # Queries.

    def alerts(self) -> tuple[Alert, ...]:
        """Returns the pending and firing alerts, with the last sample's numbers, worst first."""
        state, box, rendered = self._state, self._outbox, self._rendered
        if rendered[0] is not state or rendered[1] is not box:  # on request, not for every sample
            found = tuple(map(box.shown, current(state)))
            rendered = self._rendered = (state, box, found)
        return rendered[2]

    def lasting(self, devices: tuple[DeviceStatus, ...]) -> tuple[DeviceStatus, ...]:
        """Returns the devices, each silent one since its alert began."""
        return lasting(devices, raised(self._state))

    def broken_devices(self) -> dict[str, str]:
        """Returns the devices that must not be leased because of errors they reported."""
        possible = any(one.rule in BROKEN_RULES for one in raised(self._state))
        return reported_broken(self.alerts()) if possible else {}

    def past(self, query: Query | None = None) -> Sequence[Alert]:
        """Returns past and present episodes, newest first."""
        return self._writer.store.episodes(query or Query())

    def find(self, number: str) -> Alert:
        """Returns one alert by its id, present or past."""
        for alert in self.alerts():
            if alert.id == number:
                return alert
        _, _, rest = number.partition("@")
        query = Query(rule=number.partition("@")[0], subject=rest.rpartition("#")[0], limit=1000)
        for alert in self.past(query):
            if alert.id == number:
                return alert
        raise Gone(f"there is no alert {number[:120]!r}", hint="list them: andon alerts")

    @property
    def awake(self) -> frozenset[Precondition]:
        """The preconditions that are met here."""
        return READINGS if self._book is None else SERVED

    def silences(self) -> tuple[Silence, ...]:
        return self._state.silences

    @property
    def snapshot(self) -> Snapshot | None:
        """The sample that the alerts are based on."""
        return self._last

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` with the alerts that changed; it must not block. Returns a function that
        unsubscribes.

        Alerts that only become pending, or stop being so, are left out: that happens constantly on
        a busy node, and most of them never fire.
        """
        return self._listeners.add(listener)

    def health(self) -> dict[str, Any]:
        """Returns the health of evaluation, storage and notifiers."""
        box = self._outbox
        notifiers = [
            {**to_json(worker.health()), "waiting": box.count(name)}
            for name, worker in self._workers.items()
        ]
        trouble, failure = self._writer.trouble, self._failure()
        failing = [one["name"] for one in notifiers if not one["ok"]]
        reason, hint = failure, None
        if failure is None and trouble is not None:
            reason, hint = f"alerts are kept in memory only: {trouble[0].reason}", trouble[0].hint
        elif failure is None and failing:
            reason = f"failing notifiers: {', '.join(failing)}"
        return {
            "state": "ok" if reason is None else "degraded" if failure is None else "failing",
            "reason": reason,
            "hint": hint or None,
            "firing": sum(one.alert.state is Phase.FIRING for one in entries(self.alerts())),
            "waiting": len(box.deliveries),
            "dropped": box.dropped + self._follower.session.dropped + self._writer.dropped,
            "notifiers": notifiers,
        }

    def _failure(self) -> str | None:
        if not self._follower.runs:
            return "the watcher has stopped"
        error = self._follower.failure
        if error is None:
            return None
        return f"evaluating alerts failed: {type(error).__name__}: {error}"

    # Actions.

    def acknowledge(self, number: str, by: str = "", note: str = "") -> Alert:
        """Acknowledges an alert: no further notices. Raises Gone if there is no such alert."""
        return self._act(lambda s, m: commands.acknowledge(s, number, by, note, m), number)

    def unacknowledge(self, number: str) -> Alert:
        return self._act(lambda s, m: commands.unacknowledge(s, number, m), number)

    def silence(self, silence: Silence) -> Silence:
        self._apply_by(lambda state, moment: commands.silence(state, silence, moment))
        return silence

    def unsilence(self, number: str) -> None:
        self._apply_by(lambda state, moment: commands.unsilence(state, number, moment))

    def test(self, name: str | None = None) -> dict[str, AndonError | None]:
        """Sends a test message through one notifier or all; returns the error of each."""
        if name is not None and name not in self._workers:
            known = ", ".join(self._workers) or "none"
            raise Gone(f"there is no notifier {name[:60]!r}", hint=f"notifiers: {known}")
        chosen = [t for t in self._workers.values() if name in (None, t.name)]
        tests = {worker.name: worker.test(self._trial_notice()) for worker in chosen}
        end = time.monotonic() + TEST_SECONDS
        return {n: test.wait(max(0.1, end - time.monotonic())) for n, test in tests.items()}

    @property
    def notifiers(self) -> tuple[str, ...]:
        return tuple(self._workers)

    def judge_by(
        self, rulebook: Rulebook, notifiers: Sequence[RoutedNotifier], same: Set[str]
    ) -> None:
        """Judges by these conditions and notifies through these from now on. Of the names in `same`
        only the route is new: what they are about to send is not interrupted."""
        workers = dict(self._workers)
        same = same & workers.keys()
        gone = [workers.pop(name) for name in workers.keys() - same]
        for worker in gone:
            worker.end()
        end = time.monotonic() + self._waits.leaving
        for worker in gone:  # a message is not sent twice
            worker.join(end - time.monotonic())
        routes = tuple(route for _, route in notifiers)
        with self._lock:
            self.rulebook = rulebook
            self._routes = routes if self._duty is None else (*routes, HUB_ROUTE)
            self._recipients = frozenset(route.name for route in self._routes)
            self._outbox = self._outbox.pruned(time.time(), self._recipients)
        for notifier, _ in notifiers:
            if notifier.name in same:
                notifier.close()
            else:
                workers[notifier.name] = self._worker(notifier)
        self._workers = workers

    # The weekly digest.

    @property
    def reported(self) -> float | None:
        """When the last digest was made, also by an earlier process; None if none ever was.
        Unavailable until the store is open."""
        self._started.wait(self._waits.opening)
        _ = self._writer.store
        return self._last_report()

    def report(self, at: float, digests: Mapping[str, Notice]) -> None:
        """Sends a digest through each of these notifiers. Its time is stored with it."""
        with self._lock:
            made = [Delivery(one, name, at) for name, one in digests.items()]
            box = replace(self._outbox, deliveries=(*self._outbox.deliveries, *made))
            self._reported = at
            self._write(box)
            self._outbox = box
        for worker in self._workers.values():
            worker.wake()

    def _last_report(self) -> float | None:
        """Returns the mark of a store that may have opened late."""
        if self._reported is None and (saved := self._writer.opened(0)) is not None:
            found = saved.state.get("reported")
            self._reported = found if isinstance(found, float) else None
        return self._reported

    # Between a node and its hub.

    def hand_over(self) -> tuple[HandedNotice, ...]:
        """Returns the notices for a heartbeat; call `handed_over` with its result."""
        with self._lock:
            if self._duty is None:
                return ()
            self._duty = self._duty.started(time.monotonic())
            return handed(self._outbox, bool(self._duty.flying))

    def handed_over(self, by_hub: Sequence[HandedNotice], notifies: bool | None) -> None:
        """Stores what the hub took, and whether it notifies people; None if it did not answer."""
        with self._lock:
            if self._duty is None:
                return
            self._duty = self._duty.ended(time.monotonic(), notifies)
            if by_hub and notifies is not None:
                box = taken(self._outbox, by_hub, time.time())
                self._write(box)
                self._outbox = box

    def relay(self, given: Sequence[HandedNotice]) -> bool:
        """Sends notices of nodes as this hub's own; returns whether they are stored."""
        self._started.wait(self._waits.opening)
        with self._lock:
            box, new = relayed(self._outbox, given, self._routes, time.time(), self._offset)
            self._open_elsewhere = still_open(self._open_elsewhere, new)
            self._write(box)
            self._outbox = box
        for worker in self._workers.values():
            worker.wake()
        return self._writer.settle(self._waits.commit)

    def close(self) -> None:
        """Stops; current messages get a moment to finish, and pending ones are saved."""
        self._follower.close(self._waits.leaving)
        for worker in self._workers.values():
            worker.end()
        end = time.monotonic() + self._waits.leaving
        for worker in self._workers.values():
            worker.join(end - time.monotonic())
        self._save()
        self._writer.close()

    # The thread.

    def _turn(self, snapshot: Snapshot | None = None) -> None:
        """Takes one step, with a new sample or, if none has come, without one."""
        self._catch_up()
        if snapshot is not None:
            if (devices := self.lasting(snapshot.devices)) != snapshot.devices:
                snapshot = replace(snapshot, devices=devices)
            self._received, self._last = time.monotonic(), snapshot
        elif self._last is None or time.monotonic() - self._received < self._silent_seconds:
            return
        seen = snapshot or self._without_readings()
        if seen is not None:
            self._judge(seen)

    def _judge(self, seen: Snapshot) -> None:
        page = None if self._book is None else self._book()
        observation = Observation(
            snapshot=seen,
            events=seen.events,
            troubles=(*self._troubles(), *self._self_checks()),
            leases=None if page is None else page.leases,
            sharing=BLANK.sharing if page is None else page.sharing,
            reserved=() if page is None else page.reserved,
        )
        self._apply_by(lambda s, m: step(s, observation, m, self.rulebook), is_stored)
        if time.monotonic() - self._written >= SAVE_SECONDS:
            self._save()

    @property
    def _silent_seconds(self) -> float:
        return max(self._waits.silent, 5 * self._follower.session.interval_seconds)

    def _without_readings(self) -> Snapshot | None:
        """Returns the last snapshot with all readings unknown, because none has come from the
        sampler."""
        if self._last is None:
            return None
        blind = tuple(replace(one, sample=None, processes=()) for one in self._last.devices)
        return replace(self._last, at=time.time(), devices=blind, faults=(NO_READINGS,))

    def _troubles(self) -> list[OwnTrouble]:
        if self._leads is not None:
            return []
        found = [
            OwnTrouble(f"notifier:{one.name}", one.reason or "it is failing", one.hint or "")
            for one in (worker.health() for worker in self._workers.values())
            if not one.ok
        ]
        if (trouble := self._writer.trouble) is not None:
            found.append(OwnTrouble("store", f"alerts: {trouble[0].reason}", trouble[0].hint))
        silent = time.monotonic() - self._received
        if silent >= self._silent_seconds:
            found.append(OwnTrouble("sampler", f"the last reading was {human_seconds(silent)} ago"))
        return found

    # Applying decisions.

    def _act(self, decide: Callable[[AlertState, Moment], StepResult], number: str) -> Alert:
        outcome = self._apply_by(decide)
        changed = [alert for alert in outcome.changed if alert.id == number]
        return self._outbox.shown(changed[0]) if changed else self.find(number)

    def _apply_by(
        self,
        decide: Callable[[AlertState, Moment], StepResult],
        is_published: Callable[[Alert], bool] = lambda alert: True,
    ) -> StepResult:
        """Decides, stores the state, and publishes changed alerts that `is_published` allows."""
        self._started.wait(self._waits.opening)
        with self._lock:
            moment = Moment(*self._clock())
            outcome = decide(self._state, moment)
            news = tuple(self._outbox.shown(one) for one in outcome.changed if is_published(one))
            self._state = outcome.state
            box = self._outbox.add(
                outcome.notices, self._routes_to(outcome), moment.wall, self._offset
            )
            box = box.pruned(moment.wall, self._recipients)
            pending = box.deliveries != self._outbox.deliveries
            if news or pending:
                self._write(box, news)
            self._outbox = box  # only now: a worker must not see what is not yet being written
        if pending:
            for worker in self._workers.values():
                worker.wake()
        if news:
            self._listeners.notify(news)
        return outcome

    def _routes_to(self, outcome: StepResult) -> tuple[Route, ...]:
        """Returns the routes; device names are looked up only if there is something to send."""
        last = self._last
        if not outcome.notices or last is None:
            return self._routes
        return resolved(self._routes, last.devices)

    def _write(self, box: Outbox, changed: Sequence[Alert] = ()) -> None:
        """Writes the whole state; the caller holds the lock."""
        self._written = time.monotonic()
        state = {
            "alerting": dump(self._state),
            "informed": dict(box.informed),
            "accepted": {alert: list(accepted) for alert, accepted in box.accepted.items()},
            "elsewhere": to_json(self._open_elsewhere),
            "reported": self._last_report(),
        }
        self._writer.write(state, changed, box.deliveries)

    def _save(self) -> None:
        with self._lock:
            self._write(self._outbox)

    def _begin(self) -> None:
        try:
            self._restore(self._writer.opened(self._waits.opening))
        finally:
            self._started.set()

    def _restore(self, saved: SavedAlerts | None) -> None:
        if saved is None:
            return
        self._caught_up = True
        state, informed = EMPTY, dict[str, tuple[str, ...]]()
        accepted: dict[str, Acceptance] = {}
        elsewhere: tuple[Alert, ...] = ()
        try:
            informed = {str(a): tuple(names) for a, names in saved.state["informed"].items()}
            accepted = _accepted(saved.state["accepted"])
            elsewhere = tuple(read_valid(Alert, one) for one in saved.state["elsewhere"])
            state = restore(saved.state["alerting"], Moment(*self._clock()), self._boot)
        except (AndonError, KeyError, TypeError, AttributeError, ValueError) as exc:
            log.warning("the stored alerts are discarded: %s", exc)
        with self._lock:
            self._state, self._open_elsewhere = state, elsewhere
            box = Outbox(tuple(saved.deliveries), informed, accepted=accepted)
            self._outbox = box.pruned(time.time(), self._recipients)
        for worker in self._workers.values():
            worker.wake()

    def _catch_up(self) -> None:
        """Sends the deliveries of a store that opened late, although its state is not used."""
        if self._caught_up or (saved := self._writer.opened(0)) is None:
            return
        self._caught_up = True
        with self._lock:
            box = replace(self._outbox, deliveries=(*saved.deliveries, *self._outbox.deliveries))
            self._outbox = box.pruned(time.time(), self._recipients)
            self._write(self._outbox)
        for worker in self._workers.values():
            worker.wake()

    # For the notifier workers.

    def _work(self, name: str) -> NotifierWork:
        at, duty = time.time(), self._duty
        box = self._outbox.retimed(self._routes, at, self._offset)
        held = box.holds_back(name, at)
        is_hubs = duty is not None and duty.is_hubs(time.monotonic())
        ready, due = box.ready(name, at), box.next_due(name)
        sent = sendable(box, ready, is_hubs)
        if sent and self._leads is not None and not self._leads():
            sent = ()
        if len(sent) < len(ready):
            due = at + HELD_SECONDS
        firing = tuple(
            alert
            for alert in (*self.alerts(), *self._open_elsewhere)
            if alert.state is Phase.FIRING
            and name in box.informed.get(alert.id, ())
            and alert.id not in held
        )
        return NotifierWork(sent, firing, due)

    def _settle(self) -> None:
        self._writer.settle(self._waits.commit)

    def _delivered(self, deliveries: Sequence[Delivery]) -> None:
        with self._lock:
            box = self._outbox.done({delivery.key for delivery in deliveries}, time.time())
            ended = [box.shown(one.notice.alert) for one in deliveries if one.is_end]
            self._write(box, ended)  # an ended alert is stored with how often it was sent
            self._outbox = box

    def _trial_notice(self) -> Notice:
        last = self._last
        node, simulated = (last.node, last.simulated) if last else ("this node", False)
        return trial_notice(time.time(), node, simulated)


def _accepted(saved: Mapping[str, Sequence[Any]]) -> dict[str, Acceptance]:
    return {
        str(alert): Acceptance(int(count), None if at is None else float(at), tuple(latest))
        for alert, (count, at, latest) in saved.items()
    }
