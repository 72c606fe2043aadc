"""Request and response types of the routes about alerts, for OpenAPI."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from andon.core.conditions.lamps import Lamp
from andon.model.alert import Alert, Level, Silence
from andon.model.verdict import DeviceVerdict
from andon.model.work import LeaseState

LONGEST_SILENCE_SECONDS = 366 * 86_400.0
Short = Annotated[str, Field(max_length=200)]
Note = Annotated[str, Field(max_length=1000)]


class AcknowledgeRequest(BaseModel):
    """Who acknowledges an alert."""

    model_config = ConfigDict(extra="forbid")
    by: Short = ""
    note: Note = ""


class SilenceRequest(BaseModel):
    """What to silence and for how long; without rule, device and subject, everything."""

    model_config = ConfigDict(extra="forbid")
    seconds: Annotated[float, Field(ge=1, le=LONGEST_SILENCE_SECONDS)]
    rule: Short | None = None
    device: Short | int | None = None
    subject: Short | None = None
    by: Short = ""
    note: Note = ""


class NotifierTestRequest(BaseModel):
    """The notifier to test; null for all."""

    model_config = ConfigDict(extra="forbid")
    notifier: Short | None = None


class AlertList(BaseModel):
    """andon.alerts/1."""

    schema_: Annotated[Literal["andon.alerts/1"], Field(alias="schema")]
    node: str
    at: float
    simulated: bool
    worst: Level | None
    alerts: list[Alert]
    silences: list[Silence]
    note: str | None = Field(description="why past alerts are missing, if they are")


class Rung(BaseModel):
    """One step of a rule."""

    level: Level
    condition: str
    for_seconds: float
    clear_condition: str
    clear_seconds: float
    notify: bool


class OnDevice(BaseModel):
    """A rule's threshold for one device, and the limit that the device itself reports."""

    uuid: str
    index: int
    label: str
    threshold: float | None
    limit: float | None
    disabled: bool


class Rule(BaseModel):
    """One alert rule."""

    name: str
    title: str
    subject_kind: str
    level: Level
    for_seconds: float
    clear_seconds: float
    threshold: float | None
    unit: str
    why: str
    advice: str
    active: bool
    inactive_reason: str | None
    levels: list[Rung]
    devices: list[OnDevice]


class RuleList(BaseModel):
    """andon.rules/1."""

    schema_: Annotated[Literal["andon.rules/1"], Field(alias="schema")]
    rules: list[Rule]


class LampShape(BaseModel):
    """One device on the board."""

    uuid: str
    index: int
    lamp: Lamp
    status: str
    reason: str | None
    affected_user: str | None
    alerts: list[str]
    verdict: DeviceVerdict | None = Field(description="whether it is available; null if unknown")


class HolderShape(BaseModel):
    """A lease that holds a device or a part of it."""

    lease: str | None = Field(description="its id; null if the lease cannot be read")
    user: str
    until: float | None = Field(description="UTC seconds; null if it ends with its job")
    memory_bytes: int | None = Field(description="of a shared device; null if exclusive")
    state: LeaseState


class BoardShape(BaseModel):
    """andon.board/1."""

    schema_: Annotated[Literal["andon.board/1"], Field(alias="schema")]
    node: str
    at: float
    simulated: bool
    headline: str
    lamp: Lamp
    devices: list[LampShape]
    holders: dict[str, list[HolderShape]] = Field(description="by the device's uuid")
    holders_note: str | None = Field(description="why the leases are unknown, if they are")


class SilenceList(BaseModel):
    """The active silences."""

    silences: list[Silence]


class Ended(BaseModel):
    """Whether it has ended."""

    ended: bool


class Outcome(BaseModel):
    """The result of one test message."""

    notifier: str
    ok: bool
    reason: str | None
    hint: str | None


class Outcomes(BaseModel):
    """The results of all test messages."""

    results: list[Outcome]
    note: str | None


def responses(shape: Any) -> dict[int | str, dict[str, Any]]:
    """A route's response type for OpenAPI; the bytes are encoded by `wire`."""
    return {200: {"model": shape}}
