"""The device is at its power limit: normal under full load."""

from andon.explain.conditions.clocks.phrases import (
    cap_is_costly,
    clocks,
    loses,
    lowered,
    power_of_limit,
)
from andon.explain.conditions.condition import INFO, Condition, Rung
from andon.explain.evidence.view import View
from andon.explain.conditions.heat.phrases import throttling
from andon.explain.conditions.finding import NEITHER, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import TENTH, OnReading
from andon.explain.conditions.promql import PromTerms, above
from andon.explain.conditions.wording import clears_below, reading, valued, was
from andon.explain.evidence.measures import clock_loss_percent, measured, power_percent
from andon.explain.evidence.phrasing import CERTAIN, conclude, say
from andon.explain.evidence.reasons import Reason, ReasonKind
from andon.explain.evidence.view import Explanation, View, after_colon
from andon.model.thresholds import Figure
from andon.model.throttling import HW_SLOWDOWN, POWER_BRAKE, POWER_CAP

PERCENT = Figure(
    "power_percent",
    95.0,
    "the share of its power limit from which a device is shown as at its limit",
    1,
    100,
    switch=True,
)
CLEAR_PERCENT = 5
NOTABLE_PERCENT = 15.0  # of the clock
POWER_BOUND = ReasonKind("power_bound", "at the power limit as designed: normal", 13, mild=7)
"""Milder: the clock is near its maximum."""
ADVICE = "Nothing to do: this is normal under full load."


def judge(seen: View) -> Finding | None:
    """Judges a device at its power limit, which is by design: informational."""
    watts, limit = seen.sample.power_watts, seen.sample.power_limit_watts
    if watts is None or not limit:
        return UNKNOWN
    share, least = 100.0 * watts / limit + TENTH, seen.figures.power_percent
    if share < least - CLEAR_PERCENT + 2 * TENTH:
        return None
    return Finding(ONE, share, least, limit) if share >= least else NEITHER


def explain(view: View) -> Reason | None:
    """Explains a device at its power limit: normal under full load."""
    share = power_percent(view)
    at_limit = share is not None and share >= view.figures.power_percent and view.works
    if not (view.held_back_by(POWER_CAP.name) or at_limit) or cap_is_costly(view):
        return None
    hardware = view.held_back_by(HW_SLOWDOWN.name, POWER_BRAKE.name)
    if hardware or throttling(view) or lowered(view):
        return None
    text = say("At its power limit, as designed") + after_colon(power_of_limit(view))
    more = [view.read("throttle"), measured(view, clock_loss_percent), *clocks(view)]
    mild = not loses(view, NOTABLE_PERCENT)
    return conclude(POWER_BOUND, CERTAIN, text, more, advice=ADVICE, mild=mild)


def _share(t: PromTerms) -> str:
    return t.percent("gpu_power_watts", "gpu_power_limit_watts")


CONDITION = Condition(
    name="power",
    title="At its power limit",
    why="Normal under full load: worth knowing, not a problem.",
    advice=ADVICE,
    judged=OnReading(judge),
    rungs=(
        Rung(
            INFO,
            "{power_percent} % of the current power limit",
            60, "{clear} %", 120, notify=False,
        ),
    ),
    sentence=valued("{it} is at its power limit: {now} (threshold {least})"),
    recovered=was("at its power limit", "%"),
    measure=reading("power_percent"),
    figures=(PERCENT,),
    numbers=clears_below("power_percent", CLEAR_PERCENT),
    unit="percent",
    weight=4,
    reasons=(Explanation(explain, (POWER_BOUND,)),),
    promql=(above(_share, lambda t: t.figures.power_percent, CLEAR_PERCENT),),
)  # fmt: skip
