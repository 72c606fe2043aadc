"""What the alerts know: what was seen, at which moment, and where every episode stands."""

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
    """One instant on two clocks: durations are measured on the steady one alone."""

    wall: float  # UTC seconds; a person or a time server may set it
    steady: float  # seconds since the system started, suspended time included


@dataclass(frozen=True, slots=True)
class OwnTrouble:
    """Something of andon's own that does not work: "store", "sampler", "notifier:phone"."""

    subject: str
    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class HeldDevices:
    """A claim on devices, as far as alerts care: a lease, a job or a run."""

    id: str  # "lease:…", "job:…", "run:…"
    devices: tuple[str, ...]  # uuids
    since: float
    user: str | None = None
    name: str | None = None  # what it is for
    orphaned: bool = False  # its holder is gone, and its work lives on
    who: tuple[Party, ...] = ()  # its holder; of an orphan, what is left of its work
    remedy: str = ""  # the command that ends what is left of an orphan


@dataclass(frozen=True, slots=True)
class Former:
    """The last lease that a device had."""

    id: str
    user: str | None
    ended: float


@dataclass(frozen=True, slots=True)
class Sharing:
    """What the lease book says of devices, beside who holds them; by uuid."""

    strangers: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The pids that compute there and belong to no lease on it."""
    unsure: frozenset[str] = frozenset()
    """Where a process computes of which that cannot be told."""
    former: Mapping[str, Former] = field(default_factory=dict)
    """The leases that ended lately, or left memory in use."""


ALONE = Sharing()
"""Where nobody shares anything."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What is judged in one step. `leases` is None where nobody can say which there are."""

    snapshot: Snapshot
    events: tuple[Event, ...] = ()
    troubles: tuple[OwnTrouble, ...] = ()
    leases: tuple[HeldDevices, ...] | None = None
    sharing: Sharing = ALONE


NEVER = float("inf")
Times = tuple[float | None, ...]
"""One steady time for each rung, None where it does not run."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One rule's state for one subject. Times are of the steady clock.

    The time that a rung has held is now less its `held` time: a gap that nobody saw moves that time
    forward instead of being counted.
    """

    alert: Alert  # as it was when something last changed
    held: Times  # since when each rung's condition has been true
    calm: Times  # since when each rung that counts has been calm
    up: int = 0  # the rungs that have held for their time and not cleared, as bits
    holds: int = 0  # the rungs whose condition was true at the last look that could tell
    quiet: int = 0  # the rungs that count and were calm then, as bits
    due: float = NEVER  # when time alone changes it
    dark: float | None = None  # the last look that could tell, while there is no data
    fired: float | None = None
    factor: int = 1  # of the clear times: it doubles when an alert comes back within the hour
    restarted: bool = False  # what it counts began anew: a short calm is enough
    notifiable: bool = False  # a rung that people are told of has held
    notified_rank: int | None = None  # the rank of the highest level that a person was told
    covered: int | None = None  # the rank that an acknowledgement covers
    notified_at: float | None = None
    reminders: int = 0  # since the last notice of another kind


class Location(NamedTuple):
    """Where a device with an alert belongs, also while it is not listed."""

    vendor: str
    parent: str | None


class LastEnd(NamedTuple):
    """When the last episode of a rule and subject ended, and how patient it was."""

    at: float
    factor: int


@dataclass(frozen=True, slots=True)
class AlertState:
    """Everything that the next step needs. Small: only what is pending or firing is in it."""

    episodes: Mapping[str, Mapping[str, Episode]] = field(default_factory=dict)  # subject, rule
    silences: tuple[Silence, ...] = ()
    owed: tuple[Alert, ...] = ()  # resolved within a silence, after having been told before it
    ended: Mapping[str, LastEnd] = field(default_factory=dict)  # rule@subject, for an hour
    seconds: Mapping[str, int] = field(default_factory=dict)  # rule@subject: newest in an id
    places: Mapping[str, Location] = field(default_factory=dict)  # uuid, of devices with alerts
    ecc: Mapping[str, int] = field(default_factory=dict)  # uuid: the counter as last seen
    xids: Mapping[str, Mapping[int, float]] = field(default_factory=dict)  # subject, code: newest
    tracks: Mapping[str, Track] = field(default_factory=dict)  # uuid; not kept over a restart
    findings: Mapping[str, Mapping[str, Judgement]] = field(default_factory=dict)  # of this step
    snapshot: Snapshot | None = None
    book: Rulebook | None = None  # of this step
    remind_at: float = -NEVER  # before this, time alone tells nobody anything
    wall: float = 0.0
    steady: float | None = None  # of the last step; None before the first
    boot: str | None = None


EMPTY = AlertState()


@dataclass(frozen=True, slots=True)
class StepResult:
    """The new state, the alerts that changed, and what is to be told.

    An alert among `changed` that is resolved and has no `fired` was only pending: it is gone
    without a trace, and no past episode.
    """

    state: AlertState
    changed: tuple[Alert, ...] = ()
    notices: tuple[Notice, ...] = ()
