"""Alerts, silences and device events."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field


class Level(StrEnum):
    """Severity of an alert; INFO is shown and never sent."""

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


class EventKind(StrEnum):
    """Events that a driver or the kernel reports on its own."""

    XID = "xid"
    ECC = "ecc"
    RESET = "reset"  # the driver resets the device, as AMD's does when it hangs


class Party(Struct, frozen=True):
    """A process that an alert concerns, as far as it may be shown."""

    pid: int
    user: str | None = None
    name: str | None = None
    command: str | None = None
    started: float | None = None


class Event(Struct, frozen=True):
    """An event that a device reported."""

    kind: EventKind
    uuid: str | None  # None if the report names no known device
    at: float
    code: int | None = None  # the Xid; for a failed reset, the error code
    detail: str = ""
    source: str = ""  # "nvml", "kernel log" or "sim"
    pids: tuple[int, ...] = ()  # named in the report itself
    who: tuple[Party, ...] = ()  # what ran on the device when it happened
    pci: str | None = None  # as written in the report, if it has no uuid


class Acknowledgement(Struct, frozen=True):
    """Someone has acknowledged it: it stays on the board and is not sent again."""

    at: float
    by: str = ""
    note: str = ""


class Silence(Struct, frozen=True):
    """Matching alerts are shown but not sent until it ends; None matches everything."""

    id: str
    until: float
    rule: str | None = None
    subject: str | None = None
    by: str = ""
    note: str = ""
    since: float = 0.0


class Alert(Struct, frozen=True):
    """One rule's state for one subject, in one episode."""

    id: str  # rule@subject#start of the episode in seconds
    rule: str
    subject: str  # a device's uuid, "node", "store", "sampler", "reader:nvidia"
    level: Level
    state: Phase
    since: float  # when the condition was first seen
    where: str = ""  # "GPU 3 (NVIDIA H200)", "this node"
    device: int | None = None
    severity: int = 0
    fired: float | None = None
    resolved: float | None = None
    no_data_since: float | None = (
        None  # still firing on the last reading: missing data is not recovery
    )
    value: float | None = None
    threshold: float | None = None
    limit: float | None = None  # the device's own limit
    unit: str = ""
    message: str = ""
    advice: str = ""
    affected: tuple[Party, ...] = ()
    acknowledged: Acknowledgement | None = None
    silenced_until: float | None = None
    inhibited_by: str | None = None
    notified: int = 0
    last_notified: float | None = None
    fires_in_seconds: float | None = None  # of a pending one: when it fires if it lasts
    clears_in_seconds: float | None = None  # of one that has recovered: when it ends if it stays so
    evidence: Mapping[str, float | str] = field(default_factory=dict)


class NoticeKind(StrEnum):
    """Why a notification is sent."""

    FIRING = "firing"
    WORSE = "worse"  # the level rose within the episode
    REMINDER = "reminder"
    RESOLVED = "resolved"
    TEST = "test"


class Notice(Struct, frozen=True):
    """One notification about one alert; its id makes a second delivery recognisable."""

    id: str
    kind: NoticeKind
    alert: Alert
    at: float
    node: str = ""
    simulated: bool = False
