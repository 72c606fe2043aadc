"""The device is suspended, and not sampled to let it sleep; only `why` mentions it."""

from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.judging import OnRequest
from andon.explain.conditions.state.phrases import lasting, state_evidence
from andon.explain.evidence.phrasing import Clause, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.model.device import State

ASLEEP = ReasonKind("asleep", "suspended; not woken", 19)
ADVICE = "Nothing to do: it wakes when a program uses it; andon does not wake it."


def explain(view: View) -> Description | None:
    """Explains a suspended device, which is not sampled."""
    if view.status.state is not State.ASLEEP:
        return None
    lasts = lasting(view)
    text = (phrase("Has been asleep") + lasts if lasts else phrase("Asleep")) + _because(view)
    return Description(text, [state_evidence(view)], advice=ADVICE)


def _because(view: View) -> Clause:
    return phrase(": {reason}", reason=view.derived("reason", view.status.reason or None))


CONDITION = Condition(
    name="asleep",
    title="Asleep",
    why="It is suspended to save power, and is not sampled: that would wake it.",
    advice=ADVICE,
    judged=OnRequest(explain),
    kinds=(ASLEEP,),
)
