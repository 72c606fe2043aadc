"""The alerts that this process judges, or received from a node."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from andon.alerts.rules.handover import HandedNotice
from andon.alerts.rules.listing import entries, firing_by_level
from andon.alerts.rules.messages import NO_NOTIFIER
from andon.alerts.rules.overview import NOT_KNOWN, AlertOverview
from andon.alerts.rules.past import Query, matches
from andon.alerts.rules.rule_page import RuleContext, rule_list, rule_page
from andon.errors import AndonError, Gone, Invalid, Unavailable
from andon.explain.conditions.catalogue import condition_named
from andon.explain.conditions.condition import Precondition
from andon.explain.conditions.rulebook import Rulebook
from andon.model.alert import Alert, Phase, Silence
from andon.model.codec import document
from andon.model.device import Snapshot
from andon.model.naming import device_named
from andon.node.following import followed

MOST_ALERTS = 1000


class KnownAlerts(Protocol):
    """Who knows a node's alerts: its watcher, a hub with its nodes, or the reports of a node."""

    @property
    def rulebook(self) -> Rulebook | None:
        """The rulebook; None if its thresholds are not known."""

    @property
    def awake(self) -> frozenset[Precondition]:
        """The preconditions that are met."""

    def alerts(self) -> tuple[Alert, ...]:
        """Returns the pending and the firing alerts."""

    def silences(self) -> tuple[Silence, ...]: ...

    def past(self, query: Query | None = None) -> Sequence[Alert]: ...

    def find(self, number: str) -> Alert: ...


class AlertJudge(KnownAlerts, Protocol):
    """Also judges alerts, and keeps silences and acknowledgements."""

    def acknowledge(self, number: str, by: str = "", note: str = "") -> Alert: ...

    def unacknowledge(self, number: str) -> Alert: ...

    def silence(self, silence: Silence) -> Silence: ...

    def unsilence(self, number: str) -> None: ...

    def test(self, name: str | None = None) -> dict[str, AndonError | None]: ...

    def subscribe(self, listener: Callable[[tuple[Alert, ...]], None]) -> Callable[[], None]: ...


class PendingNotices(Protocol):
    """The waiting notices for people, which a hub may take over."""

    def hand_over(self) -> Sequence[HandedNotice]:
        """Returns the waiting notices; called when a report to the hub begins."""

    def handed_over(self, by_hub: Sequence[HandedNotice], notifies: bool | None) -> None:
        """Called when the report ends, with the notices that the hub took; `notifies` says whether
        it notifies people, None if it did not answer."""


class ServedAlerts:
    """Fills NodeAlerts. Without a judge it is read-only, and has no subscribers."""

    def __init__(
        self,
        known: KnownAlerts,
        latest: Callable[[], Snapshot],
        prefix: str,
        judge: AlertJudge | AndonError,
        notices: PendingNotices | None = None,
    ) -> None:
        """`prefix` is that of metric names; an error in place of `judge` says why there is none."""
        self._known, self._latest, self._prefix, self._judging = known, latest, prefix, judge
        self.notices = notices

    @property
    def notifies(self) -> bool:
        return not isinstance(self._judging, AndonError)

    @property
    def rulebook(self) -> Rulebook | None:
        """The rulebook; None if its thresholds are not known."""
        return self._known.rulebook

    @property
    def _judge(self) -> AlertJudge:
        if isinstance(self._judging, AndonError):
            raise self._judging
        return self._judging

    def current(self) -> Sequence[Alert]:
        """Returns the pending and the firing alerts."""
        return self._known.alerts()

    def firing(self) -> dict[str, int]:
        """Returns how many alerts fire at each level."""
        return firing_by_level(entries(self.current()))

    def silences(self) -> tuple[Silence, ...]:
        return self._known.silences()

    def page(
        self, since: float | None = None, devices: Sequence[str] = (), wanted: Query | None = None
    ) -> AlertOverview:
        """Returns the alerts that match; `wanted` has more conditions, such as a level."""
        snapshot, wanted = self._latest(), wanted or Query(since, limit=MOST_ALERTS)
        each = [replace(wanted, subject=_subject(snapshot, name)) for name in devices]
        found, note = dict[str, Alert](), None
        for one in each or [wanted]:
            alerts, note = _found(self._known, one)
            found |= {alert.id: alert for alert in alerts}
        if snapshot.silence is not None:
            note = f"{snapshot.silence}; {NOT_KNOWN}"
        return AlertOverview(
            snapshot.node, time.time(), tuple(found.values()), self.silences(), snapshot.simulated,
            note,
        )  # fmt: skip

    def pages(self, devices: Sequence[str] = ()) -> Iterator[AlertOverview]:
        return followed(self, devices)

    def check_server(self) -> None:
        """Raises `Unavailable` if there is no judge."""
        self._judge.silences()

    def alert(self, number: str) -> Alert:
        return self._known.find(number)

    def rules(self) -> dict[str, Any]:
        return document(rule_list(self._thresholds, self._latest().devices, self._known.awake))

    def rule(self, name: str) -> dict[str, Any]:
        condition, devices = condition_named(name), self._latest().devices
        known = RuleContext(self._thresholds, devices, self._known.awake, self._prefix)
        return document(rule_page(condition, known))

    @property
    def _thresholds(self) -> Rulebook:
        if (found := self.rulebook) is None:
            node = self._latest().node
            reason = f"{node} does not say which thresholds it has: it runs another andon"
            raise Unavailable(reason, hint=f"on {node}: andon alerts rules")
        return found

    def acknowledge(self, number: str, by: str, note: str) -> Alert:
        return self._judge.acknowledge(number, by, note)

    def unacknowledge(self, number: str) -> Alert:
        return self._judge.unacknowledge(number)

    def silence(self, body: Mapping[str, Any]) -> Silence:
        judge, subject, device = self._judge, body.get("subject"), body.get("device")
        if device is not None and subject is not None:
            raise Invalid("device and subject cannot be combined", hint="give only one of them")
        if device is not None:
            subject = device_named(str(device), self._latest().devices).device.uuid
        at, by, note = time.time(), body.get("by", ""), body.get("note", "")
        until = at + body["seconds"]
        return judge.silence(
            Silence(secrets.token_hex(4), until, body.get("rule"), subject, by, note, since=at)
        )

    def unsilence(self, number: str) -> None:
        self._judge.unsilence(number)

    def test(self, notifier: str | None) -> Mapping[str, Any]:
        outcomes = self._judge.test(notifier)
        results = [_outcome(name, error) for name, error in outcomes.items()]
        return {"results": results, "note": None if results else NO_NOTIFIER}

    def subscribe(self, listener: Callable[[tuple[Alert, ...]], None]) -> Callable[[], None]:
        """Calls a listener with alerts that changed, from any thread; it must not block."""
        return self._judge.subscribe(listener)


def _found(known: KnownAlerts, wanted: Query) -> tuple[list[Alert], str | None]:
    """Returns current alerts from memory and past ones from the store, if it can be read."""
    now = [alert for alert in known.alerts() if matches(wanted, alert)]
    room = wanted.limit - len(now)
    if wanted.state not in (None, Phase.RESOLVED) or room <= 0:
        return now[: wanted.limit], None
    ids = {alert.id for alert in now}
    try:
        past = known.past(replace(wanted, state=Phase.RESOLVED, limit=room))
    except AndonError as error:
        return now, f"past alerts cannot be read: {error.reason}"
    return now + [alert for alert in past if alert.id not in ids], None


def _subject(snapshot: Snapshot, device: str) -> str:
    """Returns the subject of an alert: a device, a removed device, or node, store or sampler."""
    try:
        return device_named(device, snapshot.devices).device.uuid
    except Gone:
        if device.isdecimal():
            raise
        return device


def _outcome(name: str, error: AndonError | None) -> dict[str, Any]:
    return {
        "notifier": name,
        "ok": error is None,
        "reason": None if error is None else error.reason,
        "hint": (error.hint or None) if error is not None else None,
    }
