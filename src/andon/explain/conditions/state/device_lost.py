"""The driver reports a device as lost."""

from msgspec.structs import replace

from andon.explain.conditions.condition import CRITICAL, Condition, Rung
from andon.explain.conditions.description import ConditionFacts, Description, Reported, reported
from andon.explain.conditions.finding import ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnState
from andon.explain.conditions.promql import PromTerms
from andon.explain.conditions.state.phrases import (
    FAULT_KINDS,
    FIND_CAUSE,
    LOST,
    as_sentence,
    kind_of,
    last_readings,
    last_users,
    state_evidence,
)
from andon.explain.evidence.measures import measured, state_seconds
from andon.explain.evidence.view import View
from andon.model.device import State


def judge(seen: View) -> Finding | None:
    """Judges a lost device; one that does not respond may be lost as well."""
    status = seen.status
    if status.state is State.LOST:
        return Finding(ONE, about=Reported(status.reason, status.hint))
    return UNKNOWN if status.state is State.STALE else None


def describe(facts: ConditionFacts) -> Description:
    """What was reported, and who was on it."""
    found, view = reported("{it} is lost")(facts), facts.device
    more = [state_evidence(view), measured(view, state_seconds), *last_readings(view)]
    kind, hint = kind_of(view.status.reason or "", LOST), as_sentence(view.status.hint or "")
    return replace(found, more=[*more, last_users(view)], advice=hint, kind=kind)


def _query(t: PromTerms, fires: str) -> str:
    return t.state("lost")


CONDITION = Condition(
    name="device_lost",
    title="Lost",
    why="The device is lost; what ran on it has failed.",
    advice=f"{FIND_CAUSE}. Then reset it, or reboot.",
    judged=OnState(judge, hides_all=True),
    rungs=(Rung(CRITICAL, "the driver reports it as lost", 10, "it answers, or is asleep", 60),),
    label="lost",
    headline="is lost",
    describe=describe,
    weight=19,
    behind=("driver_unreadable", "container_without_gpu"),
    kinds=(LOST, *FAULT_KINDS),
    promql=(_query,),
)
