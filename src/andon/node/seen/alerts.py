"""A node's alerts, as one caller may see and change them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from andon.access.roles import Action, Identity, Role, Sight, check_silence, refusal_for, signature
from andon.alerts.rules.overview import AlertOverview
from andon.alerts.rules.past import Query
from andon.errors import Conflict
from andon.explain.conditions.rulebook import Rulebook
from andon.model.alert import Alert, Silence
from andon.node.following import followed
from andon.node.seen.sights import alert_seen_by
from andon.node.watched.alerts import ServedAlerts


class SeenAlerts:
    """Alerts without others' command lines; a caller's changes are signed with their name."""

    def __init__(self, alerts: ServedAlerts, who: Identity, sight: Sight) -> None:
        self._alerts, self._who, self._sight = alerts, who, sight
        self.silences, self.check_server = alerts.silences, alerts.check_server
        self.rules, self.rule = alerts.rules, alerts.rule

    @property
    def notifies(self) -> bool:
        return self._alerts.notifies

    @property
    def rulebook(self) -> Rulebook | None:
        return self._alerts.rulebook

    def current(self) -> list[Alert]:
        """Returns the pending and the firing alerts."""
        return [self.seen(alert) for alert in self._alerts.current()]

    def page(
        self, since: float | None = None, devices: Sequence[str] = (), wanted: Query | None = None
    ) -> AlertOverview:
        """Returns the alerts that match; `wanted` has more conditions, such as a level."""
        found = self._alerts.page(since, devices, wanted)
        return replace(found, alerts=tuple(self.seen(alert) for alert in found.alerts))

    def pages(self, devices: Sequence[str] = ()) -> Iterator[AlertOverview]:
        return followed(self, devices)

    def alert(self, number: str) -> Alert:
        return self.seen(self._alerts.alert(number))

    def acknowledge(self, number: str, by: str, note: str) -> Alert:
        self._refuse(Action.ACKNOWLEDGE)
        by, earlier = signature(self._who, by), self._alerts.alert(number).acknowledged
        if earlier is not None and self._who.role is Role.USER and earlier.by != by:
            raise Conflict(
                f"this alert is already acknowledged by {earlier.by or 'another'}",
                hint=f"ask {earlier.by or 'root'}, or root",
            )
        return self.seen(self._alerts.acknowledge(number, by, note))

    def unacknowledge(self, number: str) -> Alert:
        found = self._alerts.alert(number).acknowledged
        self._refuse_others(Action.UNACKNOWLEDGE, "" if found is None else found.by)
        return self.seen(self._alerts.unacknowledge(number))

    def silence(self, body: Mapping[str, Any]) -> Silence:
        self._refuse(Action.SILENCE)
        named = (body.get("rule") or body.get("subject") or body.get("device")) is not None
        refused = check_silence(self._who, body["seconds"], named)
        if refused is not None:
            raise refused
        return self._alerts.silence({**body, "by": signature(self._who, body.get("by", ""))})

    def unsilence(self, number: str) -> None:
        self._refuse(Action.UNSILENCE)
        for one in self._alerts.silences():
            if one.id == number:
                self._refuse_others(Action.UNSILENCE, one.by)
        self._alerts.unsilence(number)

    def test(self, notifier: str | None) -> Mapping[str, Any]:
        self._refuse(Action.TEST_NOTIFIERS)
        return self._alerts.test(notifier)

    def seen(self, alert: Alert) -> Alert:
        return alert_seen_by(self._sight, alert)

    def _refuse(self, action: Action) -> None:
        """Raises Denied if the caller's role does not allow the action at all."""
        if (refused := refusal_for(self._who, action, is_own=True)) is not None:
            raise refused

    def _refuse_others(self, action: Action, by: str) -> None:
        """Raises Denied unless the caller may change what the user `by` has done."""
        who = self._who
        refused = refusal_for(who, action, bool(by) and by == who.user, by)
        if refused is not None:
            raise refused
