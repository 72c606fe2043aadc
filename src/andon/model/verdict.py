"""Whether a device is available: the verdict that every view shows, and its JSON."""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import asdict

from andon.model.json_fields import (
    NAME,
    choice_in,
    some_text_in,
    some_time_in,
    text_in,
    whole_in,
)
from andon.model.wire import MOST_INDEX, Json


class VerdictKind(StrEnum):
    """Whether a device is available, and if not, what kind of reason there is."""

    FREE = "free"
    HELD = "held"  # by a lease
    IN_USE = "in_use"  # by a process without a lease
    WITHHELD = "withheld"  # for a reason of its own: cordoned, broken, not responding, hidden


class DeviceVerdict(Struct, frozen=True):
    """One device: whether it is available; if not, why, because of whom and until when."""

    uuid: str
    index: int
    label: str
    kind: VerdictKind
    by: str | None = None  # the user who holds, uses, cordoned or is about to get it
    lease: str | None = None
    until: float | None = None
    code: str | None = None  # the obstacle in one word
    reason: str | None = None  # the obstacle in a sentence


def verdict_to_json(verdict: DeviceVerdict) -> Json:
    return {**asdict(verdict), "kind": str(verdict.kind)}


def verdict_from_json(value: Json) -> DeviceVerdict:
    return DeviceVerdict(
        uuid=text_in(value, "uuid", NAME),
        index=whole_in(value, "index", MOST_INDEX),
        label=text_in(value, "label", NAME),
        kind=choice_in(value, "kind", VerdictKind),
        by=some_text_in(value, "by", NAME),
        lease=some_text_in(value, "lease", NAME),
        until=some_time_in(value, "until"),
        code=some_text_in(value, "code", NAME),
        reason=some_text_in(value, "reason"),
    )
