"""The latest check of the device found wrong results, or that it was lost or did not answer."""

from andon.explain.conditions.condition import WARNING, Condition, Rung
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import ONE, Finding
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import PromTerms
from andon.explain.evidence.phrasing import phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View

FAILED_CHECK = ReasonKind("failed_check", "its latest check found it broken", 75)
ADVICE = (
    "Take it out of service (andon cordon), reset it and check it again; if it fails again, have "
    "the card replaced. Results since its last good check may be wrong."
)


def judge(seen: View) -> Finding | None:
    return Finding(ONE) if seen.status.check_failed else None


def describe(facts: ConditionFacts) -> Description | None:
    """What the check found."""
    check = facts.device.status.check
    if check is None:
        return None
    view = facts.device
    text = phrase(
        "{it} failed its check: {found}", facts.it, found=view.derived("check.text", check.text)
    )
    return Description(text, [view.derived("check.verdict", check.verdict)])


def _failed(t: PromTerms, fires: str) -> str:
    return f"{t.m('gpu_check_failed')} > 0"


CONDITION = Condition(
    name="failed_check",
    title="Failed its check",
    why="The latest andon check found wrong results, an uncorrectable error, or no answer.",
    advice=ADVICE,
    judged=OnReading(judge),
    possible_if=("check_failed >= 1",),
    rungs=(Rung(WARNING, "the latest check found it broken", 0, "a later check is well", 0),),
    label="failed its check",
    headline="failed its check",
    describe=describe,
    weight=14,
    kinds=(FAILED_CHECK,),
    promql=(_failed,),
)
