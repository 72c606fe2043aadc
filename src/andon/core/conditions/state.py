"""The state of alerting: what was observed, when, and the state of every episode."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from andon.core.conditions.finding import Judgement
from andon.core.conditions.rulebook import Rulebook
from andon.core.conditions.track import Track
from andon.model.alert import Alert, Event, Notice, Party, Silence
from andon.model.device import Snapshot


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant on two clocks; durations are measured only on the steady one."""

    wall: float  # UTC seconds; may be set by a person or a time server
    steady: float  # seconds since boot, including time suspended


@dataclass(frozen=True, slots=True)
class OwnTrouble:
    """A part of andon that does not work: "store", "sampler", "notifier:phone"."""

    subject: str
    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class HeldDevices:
    """A claim on devices, as alerts see it: a lease, a job or a run."""

    id: str  # "lease:…", "job:…", "run:…"
    devices: tuple[str, ...]  # uuids
    since: float
    user: str | None = None
    name: str | None = None  # its purpose
    orphaned: bool = False  # its holder exited, but its processes still run
    who: tuple[Party, ...] = ()  # its holder; for an orphan, the processes still running
    remedy: str = ""  # the command that stops what is left of an orphan


@dataclass(frozen=True, slots=True)
class PreviousLease:
    """The previous lease of a device."""

    id: str
    user: str | None
    ended: float


@dataclass(frozen=True, slots=True)
class Sharing:
    """What the lease book says about devices besides their holders; by uuid."""

    strangers: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The pids that compute there without belonging to a lease on it."""
    unsure: frozenset[str] = frozenset()
    """Devices with a process whose lease cannot be determined."""
    former: Mapping[str, PreviousLease] = field(default_factory=dict)
    """Leases that ended recently or left memory in use."""


NOT_SHARED = Sharing()
"""No sharing at all."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What is judged in one step. `leases` is None if they are unknown."""

    snapshot: Snapshot
    events: tuple[Event, ...] = ()
    troubles: tuple[OwnTrouble, ...] = ()
    leases: tuple[HeldDevices, ...] | None = None
    sharing: Sharing = NOT_SHARED


NEVER = float("inf")
Times = tuple[float | None, ...]
"""One steady time per rung; None if it is not running."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One rule's state for one subject. Times are on the steady clock.

    A rung has held for now minus its `held` time: a gap without data moves that time forward
    instead of being counted.
    """

    alert: Alert  # as of the last change
    held: Times  # since when each rung's condition has been true
    calm: Times  # since when each active rung has been calm
    up: int = 0  # the active rungs (held long enough, not cleared), as bits
    holds: int = 0  # the rungs whose condition was true at the last sample with data
    quiet: int = 0  # the active rungs that were calm then, as bits
    due: float = NEVER  # when time alone changes it
    dark: float | None = None  # the last sample with data, while there is none
    fired: float | None = None
    factor: int = 1  # of the clear times; doubles if the alert recurs within an hour
    restarted: bool = False  # its counter was reset: a short calm is enough
    notifiable: bool = False  # a rung that notifies people has held
    notified_rank: int | None = None  # the rank of the highest level notified
    covered: int | None = None  # the rank that an acknowledgement covers
    notified_at: float | None = None
    reminders: int = 0  # since the last notice that was not a reminder


class Location(NamedTuple):
    """Where a device with an alert belongs, kept while it is not listed."""

    vendor: str
    parent: str | None


class LastEnd(NamedTuple):
    """When the last episode of a rule and subject ended, and its clear-time factor."""

    at: float
    factor: int


@dataclass(frozen=True, slots=True)
class AlertState:
    """Everything the next step needs. Small: it holds only pending and firing alerts."""

    episodes: Mapping[str, Mapping[str, Episode]] = field(default_factory=dict)  # subject, rule
    silences: tuple[Silence, ...] = ()
    owed: tuple[Alert, ...] = ()  # resolved during a silence; notified before it
    ended: Mapping[str, LastEnd] = field(default_factory=dict)  # rule@subject, for an hour
    seconds: Mapping[str, int] = field(default_factory=dict)  # rule@subject: newest in an id
    places: Mapping[str, Location] = field(default_factory=dict)  # uuid, of devices with alerts
    ecc: Mapping[str, int] = field(default_factory=dict)  # uuid: the counter as last seen
    xids: Mapping[str, Mapping[int, float]] = field(default_factory=dict)  # subject, code: newest
    tracks: Mapping[str, Track] = field(default_factory=dict)  # uuid; not kept over a restart
    findings: Mapping[str, Mapping[str, Judgement]] = field(default_factory=dict)  # of this step
    snapshot: Snapshot | None = None
    book: Rulebook | None = None  # of this step
    remind_at: float = -NEVER  # no reminder is due before this
    wall: float = 0.0
    steady: float | None = None  # of the last step; None before the first
    boot: str | None = None


EMPTY = AlertState()


@dataclass(frozen=True, slots=True)
class StepResult:
    """The new state, the alerts that changed, and the notices to send.

    A resolved alert in `changed` without `fired` was only pending: it is dropped and does not
    become a past episode.
    """

    state: AlertState
    changed: tuple[Alert, ...] = ()
    notices: tuple[Notice, ...] = ()
