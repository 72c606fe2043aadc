"""The driver reports a device as lost."""

from andon.explain.conditions.condition import CRITICAL, Condition, Rung
from andon.explain.conditions.finding import ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnState
from andon.explain.conditions.node.drivers import fault_behind
from andon.explain.conditions.promql import PromTerms
from andon.explain.conditions.state.phrases import (
    FAULT_KINDS,
    FIND_CAUSE,
    LOST,
    as_sentence,
    because,
    kind_of,
    last_on_it,
    last_readings,
    lasting,
    state_evidence,
)
from andon.explain.conditions.wording import Reported, hinted, reported
from andon.explain.evidence.phrasing import CERTAIN, conclude, say
from andon.explain.evidence.reasons import Reason
from andon.explain.evidence.view import Explanation, View
from andon.model.device import DeviceStatus, State


def judge(status: DeviceStatus) -> Finding | None:
    """Judges a lost device; one that does not respond may be lost as well."""
    if status.state is State.LOST:
        return Finding(ONE, about=Reported(status.reason, status.hint))
    return UNKNOWN if status.state is State.STALE else None


def explain(view: View) -> Reason | None:
    """The driver reports it as lost; or the driver itself is missing or unusable."""
    status = view.status
    if status.state is not State.LOST or fault_behind(status, view.snapshot) is not None:
        return None  # the driver's own condition explains it
    kind = kind_of(status.reason or "", LOST)
    text = say("Lost") + lasting(view) + because(view)
    if kind is not LOST:
        text = say("Cannot be read") + because(view)
    text += last_on_it(view)
    advice = as_sentence(status.hint or "") or f"{FIND_CAUSE}. Then reset it, or reboot the node."
    more = [state_evidence(view), *last_readings(view)]
    return conclude(kind, CERTAIN, text, more, advice=advice)


def _query(t: PromTerms, fires: str) -> str:
    return t.state("lost")


CONDITION = Condition(
    name="device_lost",
    title="Lost",
    why="The device is lost; what ran on it has failed.",
    advice=f"{FIND_CAUSE}. Then reset it, or reboot.",
    judged=OnState(judge),
    rungs=(Rung(CRITICAL, "the driver reports it as lost", 10, "it answers, or is asleep", 60),),
    label="lost",
    headline="is lost",
    sentence=reported("{it} is lost"),
    advise=hinted,
    weight=19,
    reasons=(Explanation(explain, (LOST, *FAULT_KINDS)),),
    promql=(_query,),
)
