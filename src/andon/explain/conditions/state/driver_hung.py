"""The driver does not answer for a device, or for all devices of a vendor."""

from andon.explain.conditions.condition import CRITICAL, WARNING, Condition, Rung
from andon.explain.conditions.finding import HOLDS, UNKNOWN, Finding
from andon.explain.conditions.judging import OnState
from andon.explain.conditions.promql import PromTerms
from andon.explain.conditions.state.phrases import (
    FIND_CAUSE,
    as_sentence,
    because,
    last_on_it,
    last_readings,
    state_evidence,
)
from andon.explain.conditions.wording import Reported, hinted, reported
from andon.explain.evidence.measures import measured, state_seconds
from andon.explain.evidence.phrasing import CERTAIN, conclude, say
from andon.explain.evidence.reasons import Reason, ReasonKind
from andon.explain.evidence.view import Explanation, View
from andon.model.device import DeviceStatus, State

HUNG = ReasonKind("hung", "no response", 96)


def hung(reason: str | None = None, hint: str | None = None) -> Finding:
    """The finding about a device that does not respond, or a driver that answers for none."""
    return Finding((HOLDS, HOLDS), about=Reported(reason, hint))


def judge(status: DeviceStatus) -> Finding | None:
    """Judges a device that does not respond; of a lost one that is unknown."""
    if status.state is State.STALE:
        return hung(status.reason, status.hint)
    return UNKNOWN if status.state is State.LOST else None


def explain(view: View) -> Reason | None:
    """Explains a device that gave no response to a request."""
    status = view.status
    if status.state is not State.STALE:
        return None
    text = say("Not responding") + because(view) + last_on_it(view)
    more = [state_evidence(view), measured(view, state_seconds), *last_readings(view)]
    advice = as_sentence(status.hint or "") or f"{FIND_CAUSE}. If this persists, reboot the node."
    return conclude(HUNG, CERTAIN, text, more, advice=advice)


def _query(t: PromTerms, fires: str) -> str:
    return t.state("stale")


CONDITION = Condition(
    name="driver_hung",
    title="Not responding",
    why="Work on it is stuck, and it cannot be monitored. If all devices of a vendor stop "
    "responding, there is one alert for the driver.",
    advice="The kernel log may say why: sudo dmesg. If this persists, reboot the node.",
    judged=OnState(judge),
    rungs=(
        Rung(WARNING, "the driver does not answer for it", 60, "it answers, or is asleep", 60),
        Rung(CRITICAL, "the driver does not answer for it", 300, "it answers, or is asleep", 60),
    ),
    label="not responding",
    headline="is not responding",
    sentence=reported("{it} is not responding"),
    advise=hinted,
    weight=17,
    reasons=(Explanation(explain, (HUNG,)),),
    promql=(_query, _query),
)
