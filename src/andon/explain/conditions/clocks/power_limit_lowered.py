"""The power limit is below the card's default; only `why` mentions it."""

from andon.explain.conditions.clocks.phrases import LITTLE_PERCENT, clocks, loses, lowered, restore
from andon.explain.conditions.condition import Condition
from andon.explain.evidence.measures import clock_loss_percent, measured, power_limit_percent
from andon.explain.evidence.phrasing import CERTAIN, Clause, conclude, say
from andon.explain.evidence.reasons import Reason, ReasonKind
from andon.explain.evidence.view import Explanation, View
from andon.model.throttling import POWER_CAP

POWER_LIMIT_LOWERED = ReasonKind(
    "power_limit_lowered", "its power limit is below the card's default", 60, mild=7
)
"""It ranks above power_cap, which it causes. Milder: it costs little."""


def explain(view: View) -> Reason | None:
    """The limit is below the card's default; a problem only while it slows the card."""
    if not lowered(view):
        return None
    costs = view.held_back_by(POWER_CAP.name) and loses(view, LITTLE_PERCENT) and view.works
    more = [measured(view, power_limit_percent), view.read("power_watts"), *clocks(view)]
    default = view.status.device.limits.power_default_watts
    advice = "Someone lowered it. " + restore(view, f"-pl {default:.0f}")
    return conclude(
        POWER_LIMIT_LOWERED, CERTAIN, _text(view, costs), more, advice=advice, mild=not costs
    )


def _text(view: View, costs: bool) -> Clause:
    limit, default = view.read("power_limit_watts"), view.limit("power_default_watts")
    text = say("Power limit {limit}, below the default of {d}", limit=limit, d=default)
    loss = measured(view, clock_loss_percent) if costs else None
    return text + say("; clock {loss} below maximum", loss=loss)


CONDITION = Condition(
    name="power_limit_lowered",
    title="Power limit lowered",
    why="Someone set the power limit below the card's default; it is a problem only while it slows "
    "the card.",
    advice="Restore the default limit, if power and cooling allow.",
    reasons=(Explanation(explain, (POWER_LIMIT_LOWERED,)),),
)
