"""JSON of alerts: `andon.alerts/1`."""

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Struct

from andon.model.alert import Alert, Level, Notice, Silence
from andon.model.codec import read_schema
from andon.model.shapes import Doc, names_of, plain, to_json

ALERTS = "andon.alerts/1"

Json = dict[str, Any]

ALERT_ORDER = names_of(
    Alert, "id", "rule", "subject", "device", "where", "level", "severity", "state"
)
SILENCE_ORDER = names_of(Silence, "id", "rule", "subject")
NOTICE_ORDER = names_of(Notice, "id", "kind", "at", "node", "simulated")


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
    """Returns the whole list; `worst` is the highest firing level, None if nothing fires."""
    listed = list(alerts)
    found = AlertList(node, at, simulated, worst, tuple(listed), tuple(silences))
    return {
        "schema": ALERTS,
        **plain(found, names_of(AlertList)),
        "alerts": [alert_to_json(alert) for alert in found.alerts],
        "silences": [silence_to_json(silence) for silence in found.silences],
    }


def alert_to_json(alert: Alert) -> Json:
    found: Json = to_json(plain(alert, ALERT_ORDER))
    return found


def silence_to_json(silence: Silence) -> Json:
    return plain(silence, SILENCE_ORDER)


def notice_to_json(notice: Notice) -> Json:
    """Returns the input of a notifier's command: one notification about one alert."""
    return {**plain(notice, NOTICE_ORDER), "alert": alert_to_json(notice.alert)}


# In. Unknown fields are ignored; a wrong type, range or length is rejected with its place.


def alerts_from_json(value: Json) -> tuple[tuple[Alert, ...], tuple[Silence, ...]]:
    """Reads `andon.alerts/1`; anything else is Invalid."""
    found = read_schema(AlertList, value, ALERTS)
    return found.alerts, found.silences
