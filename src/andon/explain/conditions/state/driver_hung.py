"""The driver does not answer for a device, or for all devices of a vendor."""

from msgspec.structs import replace

from andon.explain.conditions.condition import CRITICAL, WARNING, Condition, Rung
from andon.explain.conditions.description import ConditionFacts, Description, Reported, reported
from andon.explain.conditions.finding import HOLDS, UNKNOWN, Finding
from andon.explain.conditions.judging import OnState
from andon.explain.conditions.promql import PromTerms
from andon.explain.conditions.state.phrases import (
    as_sentence,
    last_readings,
    last_users,
    state_evidence,
)
from andon.explain.evidence.measures import measured, state_seconds
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.model.device import State

HUNG = ReasonKind("hung", "no response", 96)


def judge(seen: View) -> Finding | None:
    """Judges a device that does not respond; of a lost one that is unknown."""
    status = seen.status
    if status.state is State.STALE:
        return Finding((HOLDS, HOLDS), about=Reported(status.reason, status.hint))
    return UNKNOWN if status.state is State.LOST else None


def describe(facts: ConditionFacts) -> Description:
    """What was reported, for how long, and who was on it."""
    found, view = reported("{it} is not responding")(facts), facts.view
    if view is None:
        return found
    more = [state_evidence(view), measured(view, state_seconds), *last_readings(view)]
    hint = as_sentence(view.status.hint or "")
    return replace(found, more=[*more, last_users(view)], advice=hint)


def _query(t: PromTerms, fires: str) -> str:
    return t.state("stale")


CONDITION = Condition(
    name="driver_hung",
    title="Not responding",
    why="Work on it is stuck, and it cannot be monitored. If all devices of a vendor stop "
    "responding, there is one alert for the driver.",
    advice="The kernel log may say why: sudo dmesg. If this persists, reboot the node.",
    judged=OnState(
        judge, of_all=State.STALE, all_silent=Finding((HOLDS, HOLDS), about=Reported(None))
    ),
    rungs=(
        Rung(WARNING, "the driver does not answer for it", 60, "it answers, or is asleep", 60),
        Rung(CRITICAL, "the driver does not answer for it", 300, "it answers, or is asleep", 60),
    ),
    label="not responding",
    headline="is not responding",
    describe=describe,
    weight=17,
    kinds=(HUNG,),
    promql=(_query, _query),
)
