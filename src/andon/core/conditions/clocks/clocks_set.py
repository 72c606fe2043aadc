"""A setting, sync boost or a display limits the clocks; only `why` mentions it."""

from andon.core.conditions.clocks.phrases import LITTLE_PERCENT, clocks, loses, restore, slower
from andon.core.conditions.condition import Condition, Subject
from andon.core.evidence.measures import clock_loss_percent, measured
from andon.core.evidence.phrasing import CERTAIN, Clause, conclude
from andon.core.evidence.reasons import Explanation, Reason, ReasonKind
from andon.core.evidence.view import View
from andon.model.throttling import CLOCKS_SET as CLOCKS_SET_REASON
from andon.model.throttling import DISPLAY_CLOCKS, SYNC_BOOST

CLOCKS_SET = ReasonKind(
    "clocks_set", "limited by application clocks, sync boost or a display", 45, mild=4
)
"""Milder: it costs little."""
SET = {
    CLOCKS_SET_REASON.name: "they are set to a fixed value",
    SYNC_BOOST.name: "sync boost keeps them in step with other cards",
    DISPLAY_CLOCKS.name: "the display limits them",
}


def explain(view: View) -> Reason | None:
    """A setting, sync boost or a display limits the clocks; a problem if it costs much."""
    names = [name for name in SET if view.held_back_by(name)]
    if not names or (clock_loss_percent(view) or 0) < LITTLE_PERCENT:
        return None
    text = Clause("Clocks are limited: " + " and ".join(SET[name] for name in names))
    text = text + slower(view)
    costs = view.busy and loses(view, view.figures.clock_loss_percent)
    more = [view.read("throttle"), measured(view, clock_loss_percent), *clocks(view)]
    advice = restore(view, "-rac")
    return conclude(CLOCKS_SET, CERTAIN, text, more, advice=advice, mild=not costs)


CONDITION = Condition(
    name="clocks_set",
    title="Clocks limited by a setting",
    subject_kind=Subject.DEVICE,
    why="Application clocks, sync boost or a display limit the clocks; it is a problem if that "
    "costs much.",
    advice="Restore the default clocks with the vendor's tool.",
    reasons=(Explanation(explain, (CLOCKS_SET,)),),
)
