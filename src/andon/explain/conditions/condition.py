"""The shape of a condition: everything that andon knows about one thing that can be wrong.

A module in a folder beside this one that defines `CONDITION` is a condition. The alert rules,
`why`, the lamps, the settings, the docs and the Prometheus rules are derived from it.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from andon.explain.conditions.description import ConditionFacts, Describe, Description
from andon.explain.conditions.judging import Judged
from andon.explain.conditions.promql import Query
from andon.explain.evidence.labels import label_of
from andon.explain.evidence.measures import Measure
from andon.explain.evidence.phrasing import Clause, phrase
from andon.explain.evidence.reasons import Evidence, ReasonKind
from andon.model.alert import Level
from andon.model.codec import Text
from andon.model.lamp import Lamp
from andon.model.thresholds import Figure, Thresholds
from andon.units import symbol_of

DAY_SECONDS = 86_400.0
HOUR_SECONDS = 3_600.0
INFO, WARNING, CRITICAL = Level.INFO, Level.WARNING, Level.CRITICAL


class Subject(StrEnum):
    """What kind of thing a condition is about."""

    DEVICE = "device"
    NODE = "node"
    ANDON = "andon"  # the store, the sampler, a notifier
    LEASE = "lease"
    RESERVATION = "reservation"


class Precondition(StrEnum):
    """What a condition needs before it can judge anything."""

    READINGS = "readings"
    LEASES = "leases"


INACTIVE = {Precondition.LEASES: "needs a server that follows the lease book: andon serve"}
"""Why a condition is inactive without its precondition."""
READINGS = frozenset({Precondition.READINGS})
"""What a single sample provides."""
SERVED = frozenset({Precondition.READINGS, Precondition.LEASES})
"""What a server provides: it also follows the lease book."""


Seconds = Annotated[float, Meta(ge=0.0, le=1e10)]


class Rung(Struct, frozen=True):
    """One step of a condition: a level, when it holds, and how long it must hold and be clear."""

    json_without = ("for_figure",)  # a name inside the settings
    level: Level
    condition: Text  # as text for people, with the names of figures and numbers in braces
    for_seconds: Seconds
    clear_condition: Text
    clear_seconds: Seconds
    notify: bool = True
    for_figure: str | None = None  # the figure that sets `for_seconds`, if any
    lamp: Lamp | None = None  # where it is not that of the level


class Front(NamedTuple):
    """The condition whose alert, once it fires, includes the alert of another condition until that
    ends."""

    name: str
    level: Level = INFO  # or worse
    of_lease: bool = False  # it is about the lease that holds the device


class Condition(Struct, frozen=True):
    """One thing that can be wrong; its rungs from the lowest to the highest level.

    Without rungs it is never an alert: only `why` mentions it. Without kinds `why` does not.
    """

    name: str
    title: str
    why: str  # what it means, with the names of figures and numbers in braces
    advice: str  # what to do, unless a description knows better
    subject_kind: Subject = Subject.DEVICE
    judged: Judged | None = None
    rungs: tuple[Rung, ...] = ()
    listed: bool = True  # whether it is an alert to people; otherwise a rule and history only
    label: str = ""  # the word under a lamp: "too hot"
    headline: str = ""  # how a sentence continues after "GPU 3": "is too hot"
    rising: str = ""  # the word under a lamp while its alert is pending: "getting too hot"
    describe: Describe | None = None  # otherwise its title
    measure: Measure | None = None
    """Its value now: an alert that recovers says how bad it was, and how it is."""
    possible_if: tuple[str, ...] | None = ()
    """What its judge compares, values of a device with figures, numbers or limits: it lights no
    lamp unless each of these is so, and one look does not load it before. None: it follows from how
    readings change, which one look does not show."""
    figures: tuple[Figure, ...] = ()
    numbers: Callable[[Thresholds], Mapping[str, float | str]] | None = None
    """Further numbers for its texts: where it ends, and where it gets worse."""
    unit: str = ""  # of the value of its alerts
    needs: Precondition = Precondition.READINGS
    weight: int = 0  # 0 to 19: urgency among alerts of one level
    each_rung: bool = False  # people are notified at each, although they are of one level
    momentary: bool = False  # it counts events: calm is the time since the last one
    behind: tuple[str, ...] = ()
    """Conditions of the same subject that explain this one: while one of them holds, it is neither
    sent nor listed by `why`."""
    part_of: Front | None = None
    explains: tuple[str, ...] = ()  # rules whose lamp its reasons explain, besides its own
    kinds: tuple[ReasonKind, ...] = ()  # of its reasons in `why`, the usual one first
    promql: tuple[Query | None, ...] | str = ""  # a query for each rung, or why there is none

    @property
    def threshold(self) -> str | None:
        """The condition's main threshold; the condition is off if that is set to "off"."""
        return next((figure.name for figure in self.figures if figure.switch), None)

    @property
    def level(self) -> Level:
        """The highest level it can reach."""
        return max((rung.level for rung in self.rungs), key=lambda level: level.rank)

    @property
    def lights(self) -> bool:
        """Whether it can light a lamp; otherwise its reasons are hints."""
        return any(rung.lamp or rung.level is not INFO for rung in self.rungs)

    @property
    def to_owner(self) -> bool:
        """Whether it is information that is sent: once, and to its owner."""
        return any(rung.notify and rung.level is INFO for rung in self.rungs)

    @property
    def for_seconds(self) -> float:
        return self.rungs[0].for_seconds

    @property
    def clear_seconds(self) -> float:
        return self.rungs[0].clear_seconds


def clears_below(figure: str, by: float) -> Callable[[Thresholds], Mapping[str, float | str]]:
    """Returns a function for the number `clear`, at which a condition ends: `by` below a figure."""
    return lambda figures: {"clear": getattr(figures, figure) - by}


PAST = {"is": "was", "has": "had", "cannot": "could not"}


def recovering(
    condition: Condition, it: str, worst: float | None, now: float | None, clears: str
) -> Description | None:
    """Returns the text of an alert that clears soon: `GPU 3 was too hot (99 °C); now 82 °C, clears
    in 80 s`. None if its headline has no past tense."""
    verb, _, what = condition.headline.partition(" ")
    if verb not in PAST:
        return None
    name = "" if condition.measure is None else condition.measure.__name__
    bad, good = _known(f"worst.{name}", worst), _known(name, now)
    of = f"{label_of(name)} " if symbol_of(name) == "%" else ""  # a percentage needs its label
    text = Clause(f"{it} {PAST[verb]} {what}") + phrase(f" ({of}{{bad}})", bad=bad) + Clause("; ")
    return Description(text + phrase("now {good}, ", good=good) + Clause(clears))


def _known(name: str, value: float | None) -> Evidence | None:
    return None if value is None else Evidence(name, round(value, 1), symbol_of(name))


def described(condition: Condition, facts: ConditionFacts) -> Description | None:
    """Returns the description of a condition's finding; None if there is none for this device."""
    if condition.describe is None:
        return Description(Clause(condition.title))
    return condition.describe(facts)


def severity(level: Level, condition: Condition) -> int:
    """Returns 0 to 100: by level, then by urgency among alerts of one level."""
    return {Level.INFO: 10, Level.WARNING: 40, Level.CRITICAL: 80}[level] + condition.weight


def inactive_reason(condition: Condition, awake: frozenset[Precondition] = READINGS) -> str | None:
    """Returns why a condition is inactive here; None if it is active."""
    return INACTIVE[condition.needs] if condition.needs not in awake else None
