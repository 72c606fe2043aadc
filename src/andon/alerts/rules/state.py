"""The state of alerting: every episode, and what the next step needs."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct, field

from andon.explain.conditions.finding import Finding, Rungs
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.track import Track
from andon.model.alert import Alert, Notice, Silence
from andon.model.codec import Name, Number
from andon.model.device import Snapshot

NEVER = float("inf")
Steady = Annotated[float, Meta(ge=-1e12, le=1e12)]
"""A time that no clock reaches."""
Few = Annotated[int, Meta(ge=0, le=1 << 16)]
Times = tuple[Steady | None, ...]
"""One steady time per rung; None if it is not running."""


class Episode(Struct, frozen=True):
    """One rule's state for one subject. Times are on the steady clock.

    A rung has held for now minus its `held` time: a gap without data moves that time forward
    instead of being counted.
    """

    alert: Alert  # as of the last change
    held: Times  # since when each rung's condition has been true
    calm: Times  # since when each active rung has been calm
    up: Few = 0  # the active rungs (held long enough, not cleared), as bits
    rungs: Rungs = ()  # what the last sample with data said; not kept over a restart
    worst: Number | None = None  # the highest value while it held, where that is a number to show
    due: float = NEVER  # when time alone changes it
    dark: Steady | None = None  # the last sample with data, while there is none
    fired: Steady | None = None
    factor: Few = 1  # of the clear times; doubles if the alert recurs within an hour
    restarted: bool = False  # its counter was reset: a short calm is enough
    notifiable: bool = False  # a rung that notifies people has held
    notified_rank: Few | None = None  # the rank of the highest level notified
    covered: Few | None = None  # the rank that an acknowledgement covers
    notified_at: Steady | None = None
    reminders: Few = 0  # since the last notice that was not a reminder


class Location(NamedTuple):
    """Where a device with an alert belongs, kept while it is not listed."""

    vendor: Name
    parent: Name | None


class LastEnd(NamedTuple):
    """When the last episode of a rule and subject ended, and its clear-time factor."""

    at: Steady
    factor: Few


class AlertState(Struct, frozen=True):
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
    findings: Mapping[str, Mapping[str, Finding]] = field(default_factory=dict)  # of this step
    snapshot: Snapshot | None = None
    book: Rulebook | None = None  # of this step
    remind_at: float = -NEVER  # no reminder is due before this
    wall: float = 0.0
    steady: float | None = None  # of the last step; None before the first
    boot: str | None = None


EMPTY = AlertState()


class StepResult(Struct, frozen=True):
    """The new state, the alerts that changed, and the notices to send.

    A resolved alert in `changed` without `fired` was only pending: it is dropped and does not
    become a past episode.
    """

    state: AlertState
    changed: tuple[Alert, ...] = ()
    notices: tuple[Notice, ...] = ()
