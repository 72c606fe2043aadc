"""The device is suspended, and not sampled to let it sleep; only `why` mentions it."""

from andon.explain.conditions.condition import Condition
from andon.explain.conditions.state.phrases import because, lasting, state_evidence
from andon.explain.evidence.phrasing import CERTAIN, conclude, say
from andon.explain.evidence.reasons import Reason, ReasonKind
from andon.explain.evidence.view import Explanation, View
from andon.model.device import State

ASLEEP = ReasonKind("asleep", "suspended; not woken", 19)
ADVICE = "Nothing to do: it wakes when a program uses it; andon does not wake it."


def explain(view: View) -> Reason | None:
    """Explains a suspended device, which is not sampled."""
    if view.status.state is not State.ASLEEP:
        return None
    lasts = lasting(view)
    text = (say("Has been asleep") + lasts if lasts else say("Asleep")) + because(view)
    return conclude(ASLEEP, CERTAIN, text, [state_evidence(view)], advice=ADVICE)


CONDITION = Condition(
    name="asleep",
    title="Asleep",
    why="It is suspended to save power, and is not sampled: that would wake it.",
    advice=ADVICE,
    reasons=(Explanation(explain, (ASLEEP,)),),
)
