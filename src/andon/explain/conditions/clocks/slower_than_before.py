"""The latest check found the device slow: below its siblings, its own past or its own clocks."""

from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.judging import OnRequest
from andon.explain.evidence.phrasing import LIKELY, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View

SLOWER = ReasonKind("slower_than_before", "its latest check found it slower than it should be", 35)
ADVICE = "See how it changed: andon checks. Then compare cooling, power limit and link with others."


def explain(view: View) -> Description | None:
    """Explains a device whose check found it slow, by what the check said."""
    check = view.status.check
    if check is None or check.verdict != "slow":
        return None
    found = view.derived("check.text", check.text)
    return Description(phrase("Its latest check found it {found}", found=found), confidence=LIKELY)


CONDITION = Condition(
    name="slower_than_before",
    title="Slower than it was",
    why="The latest andon check found the device below its own past, others of its model, or what "
    "its clocks allow.",
    advice=ADVICE,
    judged=OnRequest(explain),
    kinds=(SLOWER,),
)
