"""The alerts that a server judges, as one caller may see and change them."""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from andon.access.roles import Action, Identity, Role, Sight, check_silence, refusal_for, signature
from andon.alerts.rules.messages import NO_NOTIFIER
from andon.alerts.rules.overview import AlertOverview
from andon.alerts.rules.past import Query, matches
from andon.alerts.rules.rule_page import RuleContext, rule_to_json, rules_to_json
from andon.alerts.watcher import Watcher
from andon.errors import AndonError, Conflict, Gone, Invalid, Unavailable
from andon.explain.conditions.catalogue import condition_named
from andon.explain.conditions.rulebook import Rulebook
from andon.model.alert import Alert, Phase, Silence
from andon.model.device import Snapshot
from andon.model.naming import device_named
from andon.node.following import followed
from andon.web.answers.alert_payloads import seen_by

if TYPE_CHECKING:
    from andon.web.app_state import AppState

MOST_ALERTS = 1000


class ServedAlerts:
    """The alerts that the server judges. What a caller changes is signed with their name."""

    notifies = True

    def __init__(self, state: "AppState", who: Identity, sight: Sight) -> None:
        self._feed, self._watching = state.feed, state.watcher
        self._who, self._sight = who, sight

    @property
    def _watcher(self) -> Watcher:
        if self._watching is None:
            raise Unavailable("alerts are not available on this server", hint="start: andon serve")
        return self._watching

    @property
    def rulebook(self) -> Rulebook:
        return Rulebook() if self._watching is None else self._watching.rulebook

    @property
    def kept(self) -> bool:
        return self._watching is not None

    def current(self) -> list[Alert]:
        """Returns the pending and the firing alerts."""
        return [self._seen(alert) for alert in self._watcher.alerts()]

    def page(
        self, since: float | None = None, devices: Sequence[str] = (), wanted: Query | None = None
    ) -> AlertOverview:
        """`wanted` has more conditions, such as a level."""
        snapshot, wanted = self._feed.latest(), wanted or Query(since, limit=MOST_ALERTS)
        each = [replace(wanted, subject=_subject(snapshot, name)) for name in devices]
        found, note = dict[str, Alert](), None
        for one in each or [wanted]:
            alerts, note = _found(self._watcher, one)
            found |= {alert.id: self._seen(alert) for alert in alerts}
        silences, simulated = self._watcher.silences(), snapshot.simulated
        return AlertOverview(
            snapshot.node, time.time(), tuple(found.values()), silences, simulated, note
        )

    def silences(self) -> tuple[Silence, ...]:
        return self._watcher.silences()

    def pages(self, devices: Sequence[str] = ()) -> Iterator[AlertOverview]:
        return followed(self, devices)

    def check_server(self) -> None:
        """Does nothing: it is one."""

    def alert(self, number: str) -> Alert:
        return self._seen(self._watcher.find(number))

    def rules(self) -> dict[str, Any]:
        watcher = self._watcher
        return rules_to_json(watcher.rulebook, self._feed.latest().devices, watcher.awake)

    def rule(self, name: str) -> dict[str, Any]:
        watcher, prefix = self._watcher, self._feed.settings.exporter_prefix
        devices = self._feed.latest().devices
        here = RuleContext(watcher.rulebook, devices, watcher.awake, prefix)
        return rule_to_json(condition_named(name), here)

    def acknowledge(self, number: str, by: str, note: str) -> Alert:
        who = self._who
        by, earlier = signature(who, by), self._watcher.find(number).acknowledged
        if earlier is not None and who.role is Role.USER and earlier.by != by:
            raise Conflict(
                f"this alert is already acknowledged by {earlier.by or 'another'}",
                hint=f"ask {earlier.by or 'root'}, or root",
            )
        return self._seen(self._watcher.acknowledge(number, by, note))

    def unacknowledge(self, number: str) -> Alert:
        found = self._watcher.find(number).acknowledged
        self._refuse(Action.UNACKNOWLEDGE, "" if found is None else found.by)
        return self._seen(self._watcher.unacknowledge(number))

    def silence(self, body: Mapping[str, Any]) -> Silence:
        subject, device, seconds = body.get("subject"), body.get("device"), body["seconds"]
        if device is not None and subject is not None:
            raise Invalid("device and subject cannot be combined", hint="give only one of them")
        if device is not None:
            subject = device_named(str(device), self._feed.latest().devices).device.uuid
        at, rule = time.time(), body.get("rule")
        refused = check_silence(self._who, seconds, (rule or subject) is not None)
        if refused is not None:
            raise refused
        by, note = signature(self._who, body.get("by", "")), body.get("note", "")
        made = Silence(secrets.token_hex(4), at + seconds, rule, subject, by, note, since=at)
        return self._watcher.silence(made)

    def unsilence(self, number: str) -> None:
        for one in self._watcher.silences():
            if one.id == number:
                self._refuse(Action.UNSILENCE, one.by)
        self._watcher.unsilence(number)

    def test(self, notifier: str | None) -> Mapping[str, Any]:
        outcomes = self._watcher.test(notifier)
        results = [_outcome(name, error) for name, error in outcomes.items()]
        return {"results": results, "note": None if results else NO_NOTIFIER}

    def _seen(self, alert: Alert) -> Alert:
        return seen_by(self._sight, alert)

    def _refuse(self, action: Action, by: str) -> None:
        """Raises Denied unless the caller may change what the user `by` has done."""
        who = self._who
        refused = refusal_for(who, action, bool(by) and by == who.user, by)
        if refused is not None:
            raise refused


def _found(watcher: Watcher, wanted: Query) -> tuple[list[Alert], str | None]:
    """Returns current alerts from memory and past ones from the store, if it can be read."""
    now = [alert for alert in watcher.alerts() if matches(wanted, alert)]
    room = wanted.limit - len(now)
    if wanted.state not in (None, Phase.RESOLVED) or room <= 0:
        return now[: wanted.limit], None
    ids = {alert.id for alert in now}
    try:
        past = watcher.past(replace(wanted, state=Phase.RESOLVED, limit=room))
    except AndonError as error:
        return now, f"past alerts cannot be read: {error.reason}"
    return now + [alert for alert in past if alert.id not in ids], None


def _subject(snapshot: Snapshot, device: str) -> str:
    """Returns the subject: a present device, a removed one, or node, store, sampler."""
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
