"""Phrases that the sentences of several conditions share."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from andon.explain.conditions.condition import Recovery
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.evidence.blame import ranked_processes
from andon.explain.evidence.forecast import Arrival
from andon.explain.evidence.phrasing import Clause, format_evidence, say
from andon.explain.evidence.reasons import Evidence
from andon.explain.evidence.view import View
from andon.model.device import Process, party
from andon.model.event import Party
from andon.model.thresholds import Thresholds
from andon.units import human_seconds

MOST_PARTIES = 5


class Reported(NamedTuple):
    """What was reported, as text, and what to do about it."""

    reason: str | None
    hint: str | None = None


def lately(view: View, reasons: Iterable[str]) -> Clause:
    """`, 40 % of the last hour` one of the reasons was active; empty if that is unknown."""
    share = view.track.held_back_percent(reasons)
    if share is None:
        return Clause()
    readings, part = view.track.readings, view.derived("last_hour_percent", share)
    known = readings[-1][0] - readings[0][0]
    if known > 3500:
        return say(", {part} of the last hour", part=part)
    span = view.derived("readings_seconds", known) if known >= 1 else None
    return say(", {part} of the last {span}", part=part, span=span)


def reported(start: str) -> Callable[[ConditionFacts], Description]:
    """A description that continues with what was reported."""

    def describe(facts: ConditionFacts) -> Description:
        reason, hint = facts.finding.about
        why = say(": {reason}", reason=Evidence("reason", reason) if reason else None)
        return Description(say(start, facts.it) + why, advice=hint or "")

    return describe


def was(what: str, unit: str, subject: str = "{it}") -> Callable[[Recovery], str]:
    """A sentence about a recovery: `GPU 3 was too hot (99 °C); now 82 °C, clears in 80 s`."""

    def sentence(recovery: Recovery) -> str:
        worst = "" if recovery.worst is None else f" ({recovery.worst:.0f} {unit})"
        now = "; " if recovery.value is None else f"; now {recovery.value:.0f} {unit}, "
        return f"{subject.format(it=recovery.it)} was {what}{worst}{now}{clears(recovery)}"

    return sentence


def clears_below(figure: str, by: float) -> Callable[[Thresholds], Mapping[str, float | str]]:
    """Returns the function for the number `clear`: so much below a figure a condition ends."""
    return lambda figures: {"clear": getattr(figures, figure) - by}


def clears(recovery: Recovery) -> str:
    """`clears in 80 s`; `clears after 2 min` if it is not clear yet."""
    left = recovery.clears_in_seconds
    if left is not None:
        return f"clears in {human_seconds(left)}"
    return f"clears after {human_seconds(recovery.clear_seconds)}"


def span_of(name: str, when: Arrival) -> Clause:
    """`about 40 min (35 min to 47 min)`: the best estimate, the earliest and the latest."""
    best, early, late = (
        Evidence(f"{name}{which}_seconds", round(seconds), "s")
        for which, seconds in zip(("", "_earliest", "_latest"), when, strict=True)
    )
    if format_evidence(early) == format_evidence(late):
        return say("about {best}", best=best) + Clause("", (early, late))
    return say("about {best} ({early} to {late})", best=best, early=early, late=late)


def parties(processes: Iterable[Process]) -> tuple[Party, ...]:
    """Returns who is affected; blamed processes come first."""
    ranked = ranked_processes(processes)[:MOST_PARTIES]
    return tuple(party(process) for process in ranked)
