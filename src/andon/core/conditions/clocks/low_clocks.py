"""Low clocks under load for which the driver gives no reason; only `why` mentions it."""

from andon.core.conditions.clocks.phrases import clocks, loses, restore
from andon.core.conditions.condition import Condition, Subject
from andon.core.evidence.measures import clock_loss_percent, measured
from andon.core.evidence.phrasing import LIKELY, POSSIBLE, conclude, say
from andon.core.evidence.reasons import Explanation, Reason, ReasonKind
from andon.core.evidence.view import View
from andon.model.throttling import IDLE

LOW_PERCENT = 30.0  # below the maximum clock
LOW_CLOCKS = ReasonKind("low_clocks", "under load, without a reason", 52)
ADVICE = "Check for a power-saving mode and for locked clocks."


def explain(view: View) -> Reason | None:
    """Low clocks under load, without a reason."""
    reasons = [name for name in view.sample.throttle or () if name != IDLE.name]
    if reasons or not view.busy or not loses(view, LOW_PERCENT):
        return None
    text = say(
        "Clock {loss} below maximum although the GPU is {u} busy; the driver gives no reason",
        loss=measured(view, clock_loss_percent),
        u=view.read("utilization_percent"),
    )
    worker = view.worker()
    more = [view.read("throttle"), *clocks(view), view.read("performance_state")]
    confidence = LIKELY if view.sample.throttle is not None else POSSIBLE
    advice = f"{ADVICE} {restore(view, '-rgc')}"
    return conclude(LOW_CLOCKS, confidence, text, [*more, *view.who(worker)], worker, advice)


CONDITION = Condition(
    name="low_clocks",
    title="Low clocks without a reason",
    subject_kind=Subject.DEVICE,
    why="Its clock is far below the maximum although it is busy, and the driver gives no reason.",
    advice=ADVICE,
    reasons=(Explanation(explain, (LOW_CLOCKS,)),),
)
