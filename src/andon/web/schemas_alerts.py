"""Alerts, silences, rules and the board's lamps, as types for OpenAPI."""

from pydantic import BaseModel, Field


class Party(BaseModel):
    """A process that an alert concerns."""

    pid: int
    user: str | None
    name: str | None
    command: str | None


class Acknowledgement(BaseModel):
    """Someone has seen it."""

    at: float
    by: str
    note: str


class Alert(BaseModel):
    """One rule's state for one subject, in one episode."""

    id: str
    rule: str
    subject: str
    device: int | None
    where: str
    level: str
    severity: int
    state: str
    since: float
    fired: float | None
    resolved: float | None
    no_data_since: float | None
    value: float | None
    threshold: float | None
    limit: float | None
    unit: str
    message: str
    advice: str
    who: list[Party]
    acknowledged: Acknowledgement | None
    silenced_until: float | None
    inhibited_by: str | None
    notified: int
    last_notified: float | None


class Silence(BaseModel):
    """Alerts that match are shown and not sent until it ends."""

    id: str
    rule: str | None
    subject: str | None
    until: float
    by: str
    note: str


class Alerts(BaseModel):
    """andon.alerts/1."""

    schema_: str = Field(alias="schema")
    node: str
    at: float
    simulated: bool
    worst: str | None
    alerts: list[Alert]
    silences: list[Silence]


class BoardDevice(BaseModel):
    """A device's lamp, and for whom it is lit."""

    uuid: str
    index: int
    lamp: str
    word: str
    reason: str | None
    for_: str | None = Field(alias="for")
    alerts: list[str]


class Board(BaseModel):
    """andon.board/1: the headline and the lamps."""

    schema_: str = Field(alias="schema")
    at: float
    headline: str
    lamp: str
    devices: list[BoardDevice]


class Rule(BaseModel):
    """A rule, with the threshold in force."""

    name: str
    title: str
    level: str
    for_seconds: float
    clear_seconds: float
    threshold: float | None
    unit: str
    why: str
    advice: str
    awake: bool
    asleep_reason: str | None


class Rules(BaseModel):
    """The catalogue of rules."""

    items: list[Rule]
