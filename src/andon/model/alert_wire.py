"""JSON in and out for alerts: `andon.alerts/1`."""

from collections.abc import Iterable
from typing import Any

from andon.errors import Invalid
from andon.model.alert import (
    Acknowledgement,
    Alert,
    Level,
    Notice,
    NoticeKind,
    Party,
    Phase,
    Silence,
)
from andon.model.json_fields import number_in, text_in, time_in, words_of

ALERTS = "andon.alerts/1"

Json = dict[str, Any]

_NUMBERS = (
    "fired", "resolved", "no_data_since", "value", "threshold", "limit", "silenced_until",
    "last_notified",
)  # fmt: skip


# Out.


def alerts_to_json(
    alerts: Iterable[Alert],
    silences: Iterable[Silence],
    node: str,
    at: float,
    simulated: bool = False,
) -> Json:
    """The whole list; `worst` is the highest level that fires, None where nothing does."""
    listed = list(alerts)
    firing = [alert.level for alert in listed if alert.state is Phase.FIRING]
    worst = max(firing, key=lambda level: level.rank, default=None)
    return {
        "schema": ALERTS,
        "node": node,
        "at": at,
        "simulated": simulated,
        "worst": None if worst is None else str(worst),
        "alerts": [alert_to_json(alert) for alert in listed],
        "silences": [silence_to_json(silence) for silence in silences],
    }


def alert_to_json(alert: Alert) -> Json:
    seen = alert.acknowledged
    return {
        "id": alert.id,
        "rule": alert.rule,
        "subject": alert.subject,
        "device": alert.device,
        "where": alert.where,
        "level": str(alert.level),
        "severity": alert.severity,
        "state": str(alert.state),
        "since": alert.since,
        "fired": alert.fired,
        "resolved": alert.resolved,
        "no_data_since": alert.no_data_since,
        "value": alert.value,
        "threshold": alert.threshold,
        "limit": alert.limit,
        "unit": alert.unit,
        "message": alert.message,
        "advice": alert.advice,
        "who": [_party_to_json(party) for party in alert.who],
        "acknowledged": None if seen is None else {"at": seen.at, "by": seen.by, "note": seen.note},
        "silenced_until": alert.silenced_until,
        "inhibited_by": alert.inhibited_by,
        "notified": alert.notified,
        "last_notified": alert.last_notified,
        "evidence": dict(alert.evidence),
    }


def silence_to_json(silence: Silence) -> Json:
    return {
        "id": silence.id,
        "rule": silence.rule,
        "subject": silence.subject,
        "until": silence.until,
        "by": silence.by,
        "note": silence.note,
        "begun": silence.begun,
    }


def notice_to_json(notice: Notice) -> Json:
    """What a notifier's command reads: one thing to tell about one alert."""
    return {
        "id": notice.id,
        "kind": str(notice.kind),
        "at": notice.at,
        "node": notice.node,
        "simulated": notice.simulated,
        "alert": alert_to_json(notice.alert),
    }


def _party_to_json(party: Party) -> Json:
    return {
        "pid": party.pid,
        "user": party.user,
        "name": party.name,
        "command": party.command,
        "started": party.started,
    }


# In. What is unknown to us is ignored; what has the wrong type is refused with its place.


def alerts_from_json(value: Json) -> tuple[tuple[Alert, ...], tuple[Silence, ...]]:
    """Read `andon.alerts/1`; anything else is Invalid."""
    if value.get("schema") != ALERTS:
        raise Invalid(
            f"the schema is {value.get('schema')!r}, not {ALERTS!r}",
            hint="this server speaks another version: upgrade the older of the two",
        )
    alerts = tuple(alert_from_json(one) for one in value.get("alerts") or ())
    return alerts, tuple(silence_from_json(one) for one in value.get("silences") or ())


def alert_from_json(value: Json) -> Alert:
    try:
        seen = value.get("acknowledged")
        numbers = {name: number_in(value, name) for name in _NUMBERS}
        return Alert(
            id=text_in(value, "id"),
            rule=text_in(value, "rule"),
            subject=text_in(value, "subject"),
            level=Level(value["level"]),
            state=Phase(value["state"]),
            since=time_in(value, "since"),
            where=text_in(value, "where"),
            device=None if value.get("device") is None else int(value["device"]),
            severity=int(value["severity"]),
            unit=text_in(value, "unit"),
            message=text_in(value, "message"),
            advice=text_in(value, "advice"),
            who=tuple(_party(one) for one in value.get("who") or ()),
            acknowledged=None if seen is None else _acknowledgement(seen),
            inhibited_by=value.get("inhibited_by"),
            notified=int(value["notified"]),
            evidence=dict(value.get("evidence") or {}),
            **numbers,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as exc:
        raise Invalid(f"not a valid alert: {words_of(exc)}") from exc


def silence_from_json(value: Json) -> Silence:
    try:
        return Silence(
            id=text_in(value, "id"),
            until=time_in(value, "until"),
            rule=value.get("rule"),
            subject=value.get("subject"),
            by=text_in(value, "by"),
            note=text_in(value, "note"),
            begun=number_in(value, "begun") or 0.0,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as exc:
        raise Invalid(f"not a valid silence: {words_of(exc)}") from exc


def notice_from_json(value: Json) -> Notice:
    try:
        return Notice(
            id=text_in(value, "id"),
            kind=NoticeKind(value["kind"]),
            alert=alert_from_json(value["alert"]),
            at=time_in(value, "at"),
            node=text_in(value, "node"),
            simulated=bool(value.get("simulated", False)),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as exc:
        raise Invalid(f"not a valid notice: {words_of(exc)}") from exc


def _party(value: Json) -> Party:
    return Party(
        pid=int(value["pid"]),
        user=value.get("user"),
        name=value.get("name"),
        command=value.get("command"),
        started=number_in(value, "started"),
    )


def _acknowledgement(value: Json) -> Acknowledgement:
    return Acknowledgement(time_in(value, "at"), text_in(value, "by"), text_in(value, "note"))
