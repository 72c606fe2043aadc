"""Alerts and silences."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from andon.model.codec import (
    MOST_ITEMS,
    NAME,
    Amount,
    Id,
    Index,
    JsonDocument,
    Name,
    Number,
    Text,
    Time,
    Whole,
)
from andon.model.event import Party
from andon.model.shapes import Doc

AlertId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=NAME,
        pattern=r"\A[^\x00-\x1f\x7f-\xa0\xad\u2028-\u202e\ud800-\udfff]*\Z",
    ),
]
"""`thermal@GPU-3#1767614000`: it contains the name of what the alert is about, on one line."""
Evidence = Annotated[Mapping[Name, Number | Text], Meta(max_length=MOST_ITEMS)]
"""Readings by name."""
RESERVED_BY = "reserved_by"
"""The evidence that names who has reserved the devices: the alert concerns them, too."""


class Level(StrEnum):
    """Severity of an alert; INFO is shown, and sent to its owner at most."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Greater is worse."""
        return ("info", "warning", "critical").index(self.value)


class Phase(StrEnum):
    """Phase of an episode."""

    PENDING = "pending"  # the condition holds, but not yet long enough
    FIRING = "firing"
    RESOLVED = "resolved"


class Acknowledgement(Struct, frozen=True):
    """Who acknowledged an alert, and when: it stays on the board and is not sent again."""

    at: Time
    by: Text = ""
    note: Text = ""


class Silence(Struct, frozen=True):
    """Matching alerts are shown but not sent until it ends; None matches everything."""

    json_members = ("id", "rule", "subject", ...)
    id: Id
    until: Time
    rule: Name | None = None
    subject: Name | None = None
    by: Text = ""
    note: Text = ""
    since: Time = 0.0


class Alert(Struct, frozen=True):
    """One rule's state for one subject, in one episode."""

    json_members = ("id", "rule", "subject", "device", "where", "level", "severity", "state", ...)
    id: AlertId  # rule@subject#start of the episode in seconds
    rule: Name
    subject: Name  # a device's uuid, "node", "store", "sampler", "reader:nvidia"
    level: Level
    state: Phase
    since: Time  # when the condition was first seen
    where: Text = ""  # "GPU 3 (NVIDIA H200)", "this node"
    device: Index | None = None
    severity: Whole = 0
    fired: Time | None = None
    resolved: Time | None = None
    no_data_since: Time | None = (
        None  # still firing on the last reading: missing data is not recovery
    )
    value: Number | None = None
    threshold: Number | None = None
    limit: Number | None = None  # the device's own limit
    unit: Name = ""
    message: Text = ""
    advice: Text = ""
    affected: tuple[Party, ...] = ()
    acknowledged: Acknowledgement | None = None
    silenced_until: Time | None = None
    inhibited_by: Text | None = None
    notified: Whole = 0
    last_notified: Time | None = None
    fires_in_seconds: Amount | None = None  # of a pending one: when it fires if it lasts
    clears_in_seconds: Amount | None = None  # of one that has recovered: when it ends
    evidence: Annotated[Mapping[Name, Number | Text], Meta(max_length=MOST_ITEMS)] = field(
        default_factory=dict
    )


class AlertList(JsonDocument, frozen=True):
    """andon.alerts/1."""

    schema = "andon.alerts/1"
    node: str
    at: float
    simulated: bool
    worst: Annotated[Level | None, Doc("the highest firing level; null if nothing fires")]
    alerts: tuple[Alert, ...]
    silences: tuple[Silence, ...]


class NoticeKind(StrEnum):
    """Why a notification is sent."""

    FIRING = "firing"
    WORSE = "worse"  # the level rose within the episode
    REMINDER = "reminder"
    RESOLVED = "resolved"
    TEST = "test"


class Notice(Struct, frozen=True):
    """One notification about one alert; its id makes a second delivery recognisable."""

    json_members = ("id", "kind", "at", "node", "simulated", ...)
    id: AlertId
    kind: NoticeKind
    alert: Alert
    at: Time
    node: Name = ""
    simulated: bool = False
