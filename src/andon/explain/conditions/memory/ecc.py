"""The memory returned wrong data that could not be corrected."""

from andon.explain.conditions.condition import (
    CRITICAL,
    DAY_SECONDS,
    INFO,
    Condition,
    Front,
    Rung,
)
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import CALM, EVENT, Finding
from andon.explain.conditions.judging import Counted, OnEvents
from andon.explain.conditions.promql import PromTerms
from andon.explain.evidence.measures import ecc_rise
from andon.explain.evidence.phrasing import Clause, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.model.event import Event, EventKind
from andon.model.lamp import Lamp
from andon.units import counted

KNOWN_BEFORE, ROSE = (EVENT, CALM), (CALM, EVENT)
ECC = ReasonKind("ecc", "the memory returned wrong data that could not be corrected", 80)
CLEARS = "24 h without another, or 60 s after the counter was reset"


def judge_count(before: int | None, count: int) -> Counted:
    """Returns what an error count means after a different one; without an earlier one, andon
    sees the device for the first time."""
    if not count:
        return Counted(None, was_reset=before is not None)
    if before is None:
        return Counted(Finding(KNOWN_BEFORE, count))
    new = f"{count - before} new" if count > before else None
    return Counted(Finding(ROSE, count, about=new))


def judge(before: Finding | None, event: Event) -> Finding:
    """Judges an error that the driver reports on its own, without a count."""
    return Finding(ROSE, about=event.detail)


def present(view: View) -> Finding | None:
    """Judges the errors since the driver was loaded: the device is withheld until it is reset."""
    count = view.sample.ecc_uncorrected
    return Finding(KNOWN_BEFORE, count) if count else None


def describe(facts: ConditionFacts) -> Description:
    """How many errors there are, and how many of them are new."""
    detail, view, errors = facts.finding.about, facts.view, "uncorrectable memory errors"
    count = facts.value("ecc_uncorrected")
    if count is not None:
        errors = counted(int(facts.finding.value or 0), "uncorrectable memory error")
    text = Clause(f"{facts.it} has {errors}", () if count is None else (count,))
    rise = None if view is None else view.derived("ecc_rise", ecc_rise(view) or None)
    text += phrase(" ({n} new)", n=rise) or Clause(f" ({detail})" if detail else "")
    return Description(text)


def _rose(t: PromTerms, fires: str) -> str:
    return f"increase({t.m('gpu_ecc_uncorrected_errors_total')}[24h]) > 0"


CONDITION = Condition(
    name="ecc",
    title="Memory errors",
    why="The memory returned wrong data that could not be corrected: results may be wrong.",
    advice="Results since then may be wrong. Stop the work on it and reset it; if the errors "
    "return, have the card replaced.",
    judged=OnEvents(
        frozenset({EventKind.ECC}), judge, once=False, count=lambda one: one.ecc_uncorrected,
        judge_count=judge_count, present=present,
    ),
    possible_if=("ecc_uncorrected >= 1",),
    rungs=(
        Rung(
            INFO, "errors from before andon first saw it",
            0, CLEARS, DAY_SECONDS, notify=False, lamp=Lamp.AMBER,
        ),
        Rung(CRITICAL, "the count of uncorrected errors rose", 0, CLEARS, DAY_SECONDS),
    ),
    label="memory errors",
    headline="has memory errors",
    describe=describe,
    unit="errors",
    weight=15,
    momentary=True,
    part_of=Front("xid", CRITICAL),
    kinds=(ECC,),
    promql=(None, _rose),
)  # fmt: skip
