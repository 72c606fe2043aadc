"""The description of a finding: one text for the alert, the lamp, the board and `why`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from andon.explain.conditions.finding import Finding
from andon.explain.evidence.blame import Blame
from andon.explain.evidence.forecast import Arrival
from andon.explain.evidence.phrasing import CERTAIN, Clause, format_evidence, phrase
from andon.explain.evidence.reasons import Evidence, Reason, ReasonKind
from andon.explain.evidence.view import View
from andon.model.device import Process
from andon.units import human_seconds, symbol_of

LEAST_SECONDS = 60.0  # a share of less says nothing


class ConditionFacts(NamedTuple):
    """What a description may use."""

    it: str  # the subject's name for people: "GPU 3", "node vm", "lease k3x"
    finding: Finding
    view: View | None = None  # of a device that is listed
    number: str = ""  # the label of its device: "3", "6:0"
    gpus: str = ""  # the devices of its lease: "GPU 0, 1"
    lasted_seconds: float = 0.0

    @property
    def device(self) -> View:
        """The device, for conditions that are judged by its readings."""
        if self.view is None:
            raise LookupError(f"{self.it} is no listed device")
        return self.view

    def value(self, name: str) -> Evidence | None:
        """Returns the judged value, under the name of its reading."""
        return self._judged(name, self.finding.value)

    def threshold(self, unit: str) -> Evidence | None:
        """Returns the threshold that the value was compared with."""
        return self._judged("threshold", self.finding.threshold, unit)

    def limit(self, name: str) -> Evidence | None:
        """Returns the limit that the device itself states."""
        return self._judged(f"limits.{name}", self.finding.limit)

    def _judged(self, name: str, value: float | None, unit: str = "") -> Evidence | None:
        at = None if self.view is None else self.view.at
        return (
            None if value is None else Evidence(name, round(value, 1), unit or symbol_of(name), at)
        )

    def lasting(self, text: Clause) -> Clause:
        """Returns the text with its duration at the end."""
        lasted = self.lasted_seconds
        return text + Clause(f" for {human_seconds(lasted)}") if lasted >= 1 else text


Blamed = Process | Blame | None


class Description(Struct, frozen=True):
    """A finding for people, with the evidence for every number in it."""

    text: Clause  # one sentence, without a full stop
    more: Sequence[Evidence | None] = ()  # what else is worth knowing
    blame: Blamed | Callable[[], Blamed] = None  # who causes it; only `why` asks
    advice: str = ""  # for this finding; otherwise that of its condition
    confidence: float = CERTAIN
    kind: ReasonKind | None = None  # otherwise the first of its condition
    mild: bool = False  # it weighs less: see the kind

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Each piece once."""
        more = (one for one in self.more if one is not None)
        return tuple(dict.fromkeys((*self.text.evidence, *more)))


Describe = Callable[[ConditionFacts], Description | None]
"""None: the finding says nothing about this device."""


def compared(template: str, name: str) -> Describe:
    """Returns a function that describes a finding by the judged value and its threshold."""

    def describe(facts: ConditionFacts) -> Description:
        least = facts.threshold(symbol_of(name))
        text = phrase(template, facts.it, now=facts.value(name), least=least)
        return Description(text)

    return describe


def evidence_of(values: Mapping[str, float | str], at: float | None = None) -> list[Evidence]:
    """The values as evidence, under their own names."""
    return [Evidence(name, value, symbol_of(name), at) for name, value in values.items()]


def conclude(
    kind: ReasonKind, description: Description, view: View | None = None, advice: str = ""
) -> Reason:
    """Returns the description as a reason for `why`, with the processes that are blamed."""
    blame = description.blame() if callable(description.blame) else description.blame
    blame = Blame((blame,)) if isinstance(blame, Process) else blame
    who = () if view is None else (one for one in view.who(blame) if one is not None)
    return Reason(
        code=kind.code,
        weight=kind.mild if description.mild and kind.mild is not None else kind.weight,
        confidence=description.confidence,
        sentence=f"{description.text.text.rstrip('.')}.",
        evidence=tuple(dict.fromkeys((*description.evidence, *who))),
        process=None if blame is None else blame.one,
        blamed="" if blame is None or blame.one is not None else blame.text,
        advice=advice or description.advice,
    )


class Reported(NamedTuple):
    """What was reported, as text, and what to do about it."""

    reason: str | None
    hint: str | None = None


def reported(start: str) -> Callable[[ConditionFacts], Description]:
    """Returns a function that describes a finding by `start` and what was reported."""

    def describe(facts: ConditionFacts) -> Description:
        reason, hint = facts.finding.about
        why = phrase(": {reason}", reason=Evidence("reason", reason) if reason else None)
        return Description(phrase(start, facts.it) + why, advice=hint or "")

    return describe


def lately(view: View, reasons: Iterable[str]) -> Clause:
    """Returns `, 40 % of the last hour`: the time with one of the reasons; empty if unknown."""
    share = view.track.held_back_percent(reasons)
    if share is None:
        return Clause()
    readings, part = view.track.readings, view.derived("last_hour_percent", share)
    known = readings[-1][0] - readings[0][0]
    if known > 3500:
        return phrase(", {part} of the last hour", part=part)
    span = view.derived("readings_seconds", known) if known >= LEAST_SECONDS else None
    return phrase(", {part} of the last {span}", part=part, span=span)


def span_of(name: str, when: Arrival) -> Clause:
    """`about 40 min (35 min to 47 min)`: the best estimate, the earliest and the latest."""
    best, early, late = (
        Evidence(f"{name}{which}_seconds", round(seconds), "s")
        for which, seconds in zip(("", "_earliest", "_latest"), when, strict=True)
    )
    if format_evidence(early) == format_evidence(late):
        return phrase("about {best}", best=best) + Clause("", (early, late))
    return phrase("about {best} ({early} to {late})", best=best, early=early, late=late)
