"""What an alert, a silence and a device's own event are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Level(StrEnum):
    """How much an alert matters; information is shown and never sent."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Greater is worse."""
        return ("info", "warning", "critical").index(self.value)


class Phase(StrEnum):
    """Where an episode stands."""

    PENDING = "pending"  # true, not yet for long enough
    FIRING = "firing"
    RESOLVED = "resolved"


class EventKind(StrEnum):
    """What a driver or the kernel reports by itself, without being asked for a value."""

    XID = "xid"
    ECC = "ecc"
    RESET = "reset"  # the driver resets the device by itself, as AMD's does when it hangs


@dataclass(frozen=True, slots=True)
class Party:
    """A process that an alert concerns, as much of it as may be shown."""

    pid: int
    user: str | None = None
    name: str | None = None
    command: str | None = None
    started: float | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a device reported at one instant."""

    kind: EventKind
    uuid: str | None  # None where the report names no device that is known
    at: float
    code: int | None = None  # an Xid's number; of a reset that failed, the error's
    detail: str = ""
    source: str = ""  # "nvml", "kernel log" or "sim"
    pids: tuple[int, ...] = ()  # named by the report itself
    who: tuple[Party, ...] = ()  # what ran on the device when it happened
    pci: str | None = None  # as the report spells it, where it names no uuid


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Someone has seen it: it stays on the board and is not sent again."""

    at: float
    by: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Silence:
    """Alerts that match are shown and not sent until it ends; None matches everything."""

    id: str
    until: float
    rule: str | None = None
    subject: str | None = None
    by: str = ""
    note: str = ""
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule's state for one subject, in one episode."""

    id: str  # rule@subject#second in which the episode began
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
    no_data_since: float | None = None  # firing on the last word heard: silence is not recovery
    value: float | None = None
    threshold: float | None = None
    limit: float | None = None  # what the device itself states
    unit: str = ""
    message: str = ""
    advice: str = ""
    affected: tuple[Party, ...] = ()
    acknowledged: Acknowledgement | None = None
    silenced_until: float | None = None
    inhibited_by: str | None = None
    notified: int = 0
    last_notified: float | None = None
    evidence: Mapping[str, float | str] = field(default_factory=dict)


class NoticeKind(StrEnum):
    """Why a person is told."""

    FIRING = "firing"
    WORSE = "worse"  # the level rose within the episode
    REMINDER = "reminder"
    RESOLVED = "resolved"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to tell about one alert; its id makes a second delivery recognisable."""

    id: str
    kind: NoticeKind
    alert: Alert
    at: float
    node: str = ""
    simulated: bool = False
