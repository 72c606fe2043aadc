"""A setting, sync boost or a display limits the clocks; only `why` mentions it."""

from andon.explain.conditions.clocks.phrases import (
    CLOCKS_SET,
    LITTLE_PERCENT,
    clocks,
    loses,
    slower,
    undo,
)
from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.judging import OnRequest
from andon.explain.evidence.measures import clock_loss_percent, measured
from andon.explain.evidence.phrasing import Clause
from andon.explain.evidence.view import View
from andon.model.throttling import CLOCKS_SET as CLOCKS_SET_REASON
from andon.model.throttling import DISPLAY_CLOCKS, SYNC_BOOST

CAUSES = {
    CLOCKS_SET_REASON.name: "they are set to a fixed value",
    SYNC_BOOST.name: "sync boost keeps them in step with other cards",
    DISPLAY_CLOCKS.name: "the display limits them",
}


def explain(view: View) -> Description | None:
    """Explains what limits the clocks, and what that costs."""
    names = [name for name in CAUSES if view.held_back_by(name)]
    causes = [CAUSES[name] for name in names]
    if not causes or (clock_loss_percent(view) or 0) < LITTLE_PERCENT:
        return None
    text = Clause("Clocks are limited: " + " and ".join(causes)) + slower(view)
    more = [view.read("throttle"), measured(view, clock_loss_percent), *clocks(view)]
    # Whether a setting costs much is decided by `clocks_set`, for the alert and for `why`.
    others = any(name != CLOCKS_SET_REASON.name for name in names)
    costs = others and view.busy and loses(view, view.figures.clocks_set_percent)
    return Description(text, more, advice=undo(view.device, "-rac", "-rgc"), mild=not costs)


CONDITION = Condition(
    name="clocks_limited",
    title="Clocks limited",
    why="Application clocks, sync boost or a display keep its clocks below the maximum.",
    advice="Nothing to do if this is intended.",
    judged=OnRequest(explain),
    behind=("clocks_set",),
    kinds=(CLOCKS_SET,),
)
