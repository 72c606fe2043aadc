"""The answers that only the server makes, as values; OpenAPI is derived from them.

What the model knows is derived from the model: see `description`.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Struct

from andon.history.rules.intervals import UsageInterval
from andon.leases.rules.occupants import Holder
from andon.model.alert import AlertList, Level
from andon.model.codec import JsonDocument
from andon.model.lamp import DeviceLamp, Lamp
from andon.model.lease_list import LeaseRow
from andon.model.shapes import Doc
from andon.model.verdict import DeviceVerdict


class About(Struct, frozen=True):
    """The start of most payloads."""

    node: str
    at: float
    timestamp: str
    simulated: bool
    available: bool
    reason: str | None
    hint: str | None


# Health.


class SamplerHealth(Struct, frozen=True):
    """The sampling loop."""

    state: str
    reason: str | None
    age_seconds: float | None
    interval_seconds: float
    snapshots: int
    missed: int
    sampler_cpu_seconds: float
    reader_cpu_seconds: float


class ReaderHealth(Struct, frozen=True):
    """The process that calls a driver."""

    pid: int
    state: str


class BackendHealth(Struct, frozen=True):
    """One vendor."""

    name: str
    state: str
    reason: str | None
    hint: str | None
    devices: Annotated[Mapping[str, int], Doc("how many devices are in each state")]


class Health(Struct, frozen=True):
    """The state of each part; further parts are tables with at least `state` and `reason`."""

    status: str
    version: str
    node: str | None
    at: float
    uptime_seconds: float
    simulated: bool | None
    reason: str | None
    hint: str | None
    sampler: SamplerHealth
    readers: list[ReaderHealth]
    backends: list[BackendHealth]


# The board's charts.


class ChartBand(Struct, frozen=True):
    """Minimum, mean and maximum of each span; null if there is no reading."""

    min: list[float | None]
    mean: list[float | None]
    max: list[float | None]


class Charts(Struct, frozen=True):
    """Several readings of one device over time, in columns."""

    device: str
    since: float
    until: float
    at: list[float]
    series: Mapping[str, ChartBand]
    throttle: Mapping[str, list[float | None]]
    """By reason, the share of each span in which it applied; null if there is no reading."""
    readings: list[int]
    """How many readings each span has."""


class NodeCharts(Struct, frozen=True):
    """One reading of every device over time, in columns."""

    metric: str
    since: float
    until: float
    at: list[float]
    devices: Mapping[str, ChartBand]
    """By uuid."""


USAGE_WITHOUT = ("device",)  # the same for all


class Usage(Struct, frozen=True):
    """The processes that used a device, latest first."""

    device: str
    since: float
    until: float
    items: list[UsageInterval]
    omitted: int


class UserDay(Struct, frozen=True):
    """One day or month of a user or group, by the server's clock."""

    day: Annotated[str, Doc("2026-11-09, or 2026-11 of a month")]
    device_seconds: float
    energy_joules: float | None
    idle_share: float | None


class UserShare(Struct, frozen=True):
    """What one user used; null is not known."""

    user: str
    device_seconds: float
    idle_share: Annotated[float | None, Doc("of the time with a process on a device")]
    held_idle_share: Annotated[float | None, Doc("the same, idle for half an hour or longer")]
    energy_joules: float | None
    days: list[UserDay]


class UserShares(Struct, frozen=True):
    """What each user used in a span of time, the largest share first."""

    since: float
    until: float
    price_per_kwh: Annotated[float | None, Doc("null if the settings name none")]
    currency: str | None
    items: list[UserShare]


class Recent(Struct, frozen=True):
    """The last minutes of one reading, for each device."""

    metric: str
    at: list[float]
    devices: Mapping[str, list[float | None]]


class Features(Struct, frozen=True):
    """The features of this server."""

    version: str
    features: Mapping[str, bool]


class SessionState(Struct, frozen=True):
    """Who the caller is, and what they may do here: `no`, `own` or `all` for each action."""

    role: str  # anonymous, user or owner
    user: str | None
    uid: int | None
    by_token: bool  # a token proves no person: names are typed
    reads: bool
    expires_in_seconds: float | None
    may: Mapping[str, str]
    server_user: str | None  # who runs the server
    sign_in: str | None  # the socket at which this machine's users get their links


# Alerts.


class LitBy(Struct, frozen=True):
    """The alert that lights a lamp, as far as a tile shows it."""

    id: str
    rule: str
    since: float
    advice: str
    users: Annotated[list[str], Doc("whose work is affected")]
    acknowledged_by: Annotated[str | None, Doc("null if no one has; empty if without a name")]
    silenced_until: float | None


class Soon(Struct, frozen=True):
    """A pending alert above the level info."""

    id: str
    message: str
    fires_in_seconds: float | None


class BoardDevice(DeviceLamp, frozen=True):
    """One device on the board: its lamp, what lights it, and whether it is available."""

    lit_by: LitBy | None = None
    soon: Annotated[Soon | None, Doc("what fires if it lasts, under a ring")] = None
    verdict: Annotated[DeviceVerdict | None, Doc("whether it is available; null if unknown")] = None


class Board(JsonDocument, frozen=True):
    """andon.board/1."""

    schema = "andon.board/1"
    node: str
    at: float
    simulated: bool
    headline: str
    headline_alert: Annotated[str | None, Doc("the alert that the headline is about")]
    lamp: Lamp
    devices: tuple[BoardDevice, ...]
    holders: Annotated[Mapping[str, list[Holder]], Doc("by the device's uuid")]
    holders_note: Annotated[str | None, Doc("why the leases are unknown, if they are")]


class Ended(Struct, frozen=True):
    """Whether it has ended."""

    ended: bool


class AlertEntry(Struct, frozen=True):
    """One line of the list: an alert, and those that it explains, by their ids."""

    id: str
    level: Annotated[Level, Doc("the worst of them, as people see it")]
    lamp: Annotated[Lamp, Doc("green: it is information; a ring: pending or clearing; grey: over")]
    related: list[str]


class AlertCounts(Struct, frozen=True):
    """How many lines there are, each counted once. The same in `andon alerts`."""

    critical: Annotated[int, Doc("these and the warnings need attention: the number on the badge")]
    warning: int
    info: int
    pending: int
    clearing: Annotated[int, Doc("they fire, no longer hold, and end if it stays so")]
    handled: Annotated[int, Doc("acknowledged or silenced")]


class AlertAnswer(AlertList, frozen=True):
    """andon.alerts/1."""

    entries: Annotated[list[AlertEntry], Doc("the alerts as people list and count them")]
    counts: Annotated[AlertCounts, Doc("of the entries; resolved ones are not counted")]
    note: Annotated[str | None, Doc("why past alerts are missing, if they are")]


# Leases.


class LeaseGrant(LeaseRow, frozen=True):
    """A lease, and the environment that makes only its devices visible to a process."""

    environment: Mapping[str, str]


class Released(Struct, frozen=True):
    """The lease that ended."""

    id: str
    released: bool


class CalendarLink(Struct, frozen=True):
    """Where a calendar program finds the caller's reservations."""

    path: Annotated[str, Doc("of this server, with a key; an earlier one has ended")]


class CordonState(Struct, frozen=True):
    """Whether a device is out of service now."""

    uuid: str
    cordoned: bool
