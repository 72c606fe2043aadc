"""Whether a device is available: the verdict that every view shows."""

from enum import StrEnum

from msgspec import Struct

from andon.model.codec import Index, Name, Text, Time


class VerdictKind(StrEnum):
    """Whether a device is available, and if not, what kind of reason there is."""

    FREE = "free"
    HELD = "held"  # by a lease
    IN_USE = "in_use"  # by a process without a lease
    WITHHELD = "withheld"  # for a reason of its own: cordoned, broken, not responding, hidden


class DeviceVerdict(Struct, frozen=True):
    """One device: whether it is available; if not, why, because of whom and until when."""

    uuid: Name
    index: Index
    label: Name
    kind: VerdictKind
    by: Name | None = None  # the user who holds, uses, cordoned or is about to get it
    lease: Name | None = None
    until: Time | None = None
    code: Name | None = None  # the obstacle in one word
    reason: Text | None = None  # the obstacle in a sentence
