"""JSON of alerts: `andon.alerts/1`."""

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Struct

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
from andon.model.json_fields import (
    MOST_ITEMS,
    MOST_PID,
    NAME,
    Wrong,
    alert_id_in,
    choice_in,
    each_in,
    flag_in,
    id_in,
    inside,
    key_shown,
    number_in,
    shown,
    some_text_in,
    some_time_in,
    some_whole_in,
    text_in,
    text_of,
    time_in,
    whole_in,
)
from andon.model.shapes import Doc, names_of, plain

ALERTS = "andon.alerts/1"

Json = dict[str, Any]

_TIMES = ("fired", "resolved", "no_data_since", "silenced_until", "last_notified")
_NUMBERS = ("value", "threshold", "limit")
_SPANS = ("fires_in_seconds", "clears_in_seconds")
MOST_INDEX = 65_535
ALERT_ORDER = names_of(
    Alert, "id", "rule", "subject", "device", "where", "level", "severity", "state"
)
SILENCE_ORDER = names_of(Silence, "id", "rule", "subject")
NOTICE_ORDER = names_of(Notice, "id", "kind", "at", "node", "simulated")
_PARTY, _ACKNOWLEDGEMENT = names_of(Party), names_of(Acknowledgement)


class AlertList(Struct, frozen=True):
    """andon.alerts/1."""

    node: str
    at: float
    simulated: bool
    worst: Annotated[Level | None, Doc("the highest firing level; null if nothing fires")]
    alerts: tuple[Alert, ...]
    silences: tuple[Silence, ...]


# Out.


def alerts_to_json(
    alerts: Iterable[Alert],
    silences: Iterable[Silence],
    node: str,
    at: float,
    simulated: bool = False,
    *,
    worst: Level | None,
) -> Json:
    """The whole list; `worst` is the highest firing level, None if nothing fires."""
    listed = list(alerts)
    found = AlertList(node, at, simulated, worst, tuple(listed), tuple(silences))
    return {
        "schema": ALERTS,
        **plain(found, names_of(AlertList)),
        "alerts": [alert_to_json(alert) for alert in found.alerts],
        "silences": [silence_to_json(silence) for silence in found.silences],
    }


def alert_to_json(alert: Alert) -> Json:
    seen = alert.acknowledged
    return {
        **plain(alert, ALERT_ORDER),
        "affected": [plain(party, _PARTY) for party in alert.affected],
        "acknowledged": None if seen is None else plain(seen, _ACKNOWLEDGEMENT),
        "evidence": dict(alert.evidence),
    }


def silence_to_json(silence: Silence) -> Json:
    return plain(silence, SILENCE_ORDER)


def notice_to_json(notice: Notice) -> Json:
    """The input of a notifier's command: one notification about one alert."""
    return {**plain(notice, NOTICE_ORDER), "alert": alert_to_json(notice.alert)}


# In. Unknown fields are ignored; a wrong type, range or length is rejected with its place.


def alerts_from_json(value: Json) -> tuple[tuple[Alert, ...], tuple[Silence, ...]]:
    """Read `andon.alerts/1`; anything else is Invalid."""
    if value.get("schema") != ALERTS:
        raise Invalid(
            f"the schema is {shown(value.get('schema'))}, not {ALERTS!r}",
            hint="this server has another version: upgrade the older of the two",
        )
    try:
        alerts = tuple(each_in(value, "alerts", _alert))
        return alerts, tuple(each_in(value, "silences", _silence))
    except Wrong as wrong:
        raise Invalid(f"not a valid {ALERTS}: {wrong}") from wrong


def alert_from_json(value: Json) -> Alert:
    try:
        return _alert(value)
    except Wrong as wrong:
        raise Invalid(f"not a valid alert: {wrong}") from wrong


def silence_from_json(value: Json) -> Silence:
    try:
        return _silence(value)
    except Wrong as wrong:
        raise Invalid(f"not a valid silence: {wrong}") from wrong


def notice_from_json(value: Json) -> Notice:
    try:
        return _notice(value)
    except Wrong as wrong:
        raise Invalid(f"not a valid notice: {wrong}") from wrong


def _alert(value: Json) -> Alert:
    times = {name: some_time_in(value, name) for name in _TIMES}
    numbers = {name: number_in(value, name) for name in _NUMBERS}
    spans = {name: number_in(value, name, 0) for name in _SPANS}
    return Alert(
        id=alert_id_in(value, "id"),
        rule=text_in(value, "rule", NAME),
        subject=text_in(value, "subject", NAME),
        level=choice_in(value, "level", Level),
        state=choice_in(value, "state", Phase),
        since=time_in(value, "since"),
        where=text_in(value, "where"),
        device=some_whole_in(value, "device", MOST_INDEX),
        severity=whole_in(value, "severity"),
        unit=text_in(value, "unit", NAME),
        message=text_in(value, "message"),
        advice=text_in(value, "advice"),
        affected=tuple(each_in(value, "affected", _party)),
        acknowledged=inside(value, "acknowledged", _acknowledgement),
        inhibited_by=some_text_in(value, "inhibited_by"),
        notified=whole_in(value, "notified"),
        evidence=inside(value, "evidence", _evidence) or {},
        **times,
        **numbers,
        **spans,
    )


def _silence(value: Json) -> Silence:
    return Silence(
        id=id_in(value, "id"),
        until=time_in(value, "until"),
        rule=some_text_in(value, "rule", NAME),
        subject=some_text_in(value, "subject", NAME),
        by=text_in(value, "by"),
        note=text_in(value, "note"),
        since=some_time_in(value, "since") or 0.0,
    )


def _notice(value: Json) -> Notice:
    alert = inside(value, "alert", _alert)
    if alert is None:
        raise Wrong("alert", "is missing")
    return Notice(
        id=alert_id_in(value, "id"),
        kind=choice_in(value, "kind", NoticeKind),
        alert=alert,
        at=time_in(value, "at"),
        node=text_in(value, "node", NAME),
        simulated=flag_in(value, "simulated"),
    )


def _party(value: Json) -> Party:
    return Party(
        pid=whole_in(value, "pid", MOST_PID),
        user=some_text_in(value, "user", NAME),
        name=some_text_in(value, "name", NAME),
        command=some_text_in(value, "command"),
        started=some_time_in(value, "started"),
    )


def _acknowledgement(value: Json) -> Acknowledgement:
    return Acknowledgement(time_in(value, "at"), text_in(value, "by"), text_in(value, "note"))


def _evidence(value: Json) -> dict[str, float | str]:
    """Readings by name: numbers and strings."""
    if len(value) > MOST_ITEMS:
        raise Wrong("", f"has {len(value)} items, more than {MOST_ITEMS}")
    return {
        text_of(name, key_shown(name), NAME): (
            text_in(value, name) if isinstance(value[name], str) else _evident(value, name)
        )
        for name in value
    }


def _evident(value: Json, name: str) -> float:
    found = number_in(value, name)
    if found is None:
        raise Wrong(name, "is None, neither a number nor a string")
    return float(found) if type(found) is float else found
