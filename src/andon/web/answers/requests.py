"""Request bodies of the routes about alerts and leases."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from andon.history.rules.notes import LONGEST_NOTE
from andon.leases.rules.requests import (
    LONGEST_REMOTE_SECONDS,
    MOST_GPUS,
    SHORTEST_REMOTE_SECONDS,
    Count,
    LeaseOptions,
    Names,
    RequestOption,
    RequestOptions,
    RestField,
    Seconds,
    Size,
    rows,
)
from andon.model.job.device_request import MOST_PRIORITY
from andon.model.lease import FURTHEST

# Request bodies of the routes about alerts.

LONGEST_RESERVED_SECONDS = 366 * 86_400.0
LONGEST_SILENCE_SECONDS = 366 * 86_400.0
Short = Annotated[str, Field(max_length=200)]
Note = Annotated[str, Field(max_length=1000)]


class RequestBody(BaseModel):
    """A body in JSON; a misspelt field is refused, as it must not be ignored."""

    model_config = ConfigDict(extra="forbid")


class AcknowledgeRequest(RequestBody):
    """Who acknowledges an alert."""

    by: Short = ""
    note: Note = ""


class RunRemarks(RequestBody):
    """What a person adds to a run; what is left out stays, and an empty note removes it."""

    pinned: bool | None = None
    note: Note | None = None


class NoteRequest(RequestBody):
    """A note on a time range of a device; without a device, of the node."""

    text: Annotated[str, Field(min_length=1, max_length=LONGEST_NOTE)]
    since: Annotated[float, Field(ge=0, le=FURTHEST)]
    until: Annotated[float, Field(ge=0, le=FURTHEST)]
    device: Short | int | None = None
    by: Short = ""


class SilenceRequest(RequestBody):
    """What to silence and for how long; without rule, device and subject, everything."""

    seconds: Annotated[float, Field(ge=1, le=LONGEST_SILENCE_SECONDS)]
    rule: Short | None = None
    device: Short | int | None = None
    subject: Short | None = None
    by: Short = ""
    note: Note = ""


class NotifierTestRequest(RequestBody):
    """The notifier to test; null for all."""

    notifier: Short | None = None


# Request bodies of the routes about leases.

Name = Annotated[str, Field(min_length=1, max_length=200)]
Lifetime = Annotated[float, Field(ge=SHORTEST_REMOTE_SECONDS, le=LONGEST_REMOTE_SECONDS)]
Fence = Annotated[int, Field(ge=0, lt=2**63)]
_GPUS = {"type": "integer", "minimum": 1, "maximum": MOST_GPUS}
_RANGE = {"type": "string", "pattern": r"^([0-9]{1,4}(\.\.[0-9]{1,4})?|all)$"}
_SIZE = {"type": "string", "maxLength": 40, "pattern": r"^[0-9]+(\.[0-9]+)? ?[A-Za-z]+$"}
_PRIORITY = {"type": "integer", "minimum": -MOST_PRIORITY, "maximum": MOST_PRIORITY}


def _unread(schema: dict[str, Any]) -> Any:
    """Describes a field that `RequestOptions` parses, so that mistakes read the same everywhere."""
    return Annotated[Any, WithJsonSchema(schema)]


_TYPES: dict[Any, Any] = {
    bool: bool,
    int: _unread(_PRIORITY),
    Count: _unread({"anyOf": [_GPUS, _RANGE]}),
    Size: _unread({"anyOf": [_SIZE, {"type": "null"}]}),
    Names: Annotated[list[Name], Field(max_length=64)],
    Seconds: float,
}
"""REST's form of each type of the table."""


def _field(row: RequestOption, rest: RestField) -> tuple[Any, Any]:
    default = list(row.default) if row.type == Names else rest.default
    return _TYPES[row.type], Field(default, ge=rest.low, le=rest.high, description=row.help)


_FIELDS: dict[str, Any] = {
    row.rest.name: _field(row, row.rest) for row in rows(LeaseOptions) if row.rest is not None
}
_Options: Any = create_model("_Options", __base__=RequestBody, **_FIELDS)


class LeaseBody(_Options):  # type: ignore[misc] # its fields are the rows of a table
    """The requested devices, for how long, and how long to wait for them."""

    command: Annotated[str, Field(max_length=400, description="what it is for")] = ""
    whom: Annotated[str, Field(max_length=60, description="for whom it is held")] = ""


Moment = Annotated[float, Field(ge=0, le=FURTHEST, description="UTC seconds")]
Length = Annotated[float, Field(gt=0, le=LONGEST_RESERVED_SECONDS)]
_RESERVED = ("gpus", "memory", "model", "label", "devices", "exclude")


class ReservedTime(RequestBody):
    """From when to when; `seconds` instead of an end."""

    begins: Moment | None = None
    ends: Moment | None = None
    seconds: Length | None = None


_RESERVED_FIELDS: dict[str, Any] = {
    row.rest.name: _field(row, row.rest)
    for row in rows(RequestOptions)
    if row.name in _RESERVED and row.rest is not None
}
_ReservedDevices: Any = create_model("_ReservedDevices", __base__=ReservedTime, **_RESERVED_FIELDS)


class ReservationBody(_ReservedDevices):  # type: ignore[misc] # its fields are the rows of a table
    """The devices and the time that are reserved; without `begins`, from now on."""

    name: Annotated[str, Field(max_length=200, description="what for, shown to everyone")] = ""
    weekly: Annotated[int, Field(ge=1, le=53, description="for so many weeks")] = 1
    zone: Annotated[str, Field(max_length=60, description="of the clocks: Europe/Berlin")] = ""


class RenewRequest(RequestBody):
    """The new lifetime from now; a lease made over the network requires its fence."""

    seconds: Lifetime = 600.0
    fence: Fence | None = None


class CordonRequest(RequestBody):
    """Why a device is taken out of service."""

    reason: Annotated[str, Field(max_length=200)] = ""
