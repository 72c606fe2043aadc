"""The power limit is below the card's default; only `why` mentions it."""

from andon.explain.conditions.clocks.phrases import (
    LITTLE_PERCENT,
    clocks,
    loses,
    lowered,
    slower,
    undo,
)
from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.judging import OnRequest
from andon.explain.evidence.measures import measured, power_limit_percent
from andon.explain.evidence.phrasing import Clause, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.model.throttling import POWER_CAP

POWER_LIMIT_LOWERED = ReasonKind(
    "power_limit_lowered", "its power limit is below the card's default", 60, mild=7
)
"""It ranks above power_cap, which it causes. Milder: it costs little."""


def explain(view: View) -> Description | None:
    """Explains a limit below the card's default; a problem only while it slows the card."""
    if not lowered(view):
        return None
    costs = view.held_back_by(POWER_CAP.name) and loses(view, LITTLE_PERCENT) and view.works
    more = [measured(view, power_limit_percent), view.read("power_watts"), *clocks(view)]
    default = view.device.limits.power_default_watts
    advice = "Someone lowered it. " + undo(view.device, f"-pl {default:.0f}")
    return Description(_text(view, costs), more, advice=advice, mild=not costs)


def _text(view: View, costs: bool) -> Clause:
    limit, default = view.read("power_limit_watts"), view.limit("power_default_watts")
    text = phrase("Power limit {limit}, below the default of {d}", limit=limit, d=default)
    return text + (slower(view) if costs else Clause())


CONDITION = Condition(
    name="power_limit_lowered",
    title="Power limit lowered",
    why="Someone set the power limit below the card's default; it is a problem only while it slows "
    "the card.",
    advice="Restore the default limit, if power and cooling allow.",
    judged=OnRequest(explain),
    kinds=(POWER_LIMIT_LOWERED,),
)
