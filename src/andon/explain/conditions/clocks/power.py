"""The device is at its power limit: normal under full load."""

from typing import Final

from andon.explain.conditions.clocks.phrases import (
    clocks,
    loses,
)
from andon.explain.conditions.condition import INFO, Condition, Rung, clears_below
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import BETWEEN, CALM, NEITHER, NO_DATA, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import TENTH, OnReading
from andon.explain.conditions.promql import PromTerms, above
from andon.explain.evidence.measures import clock_loss_percent, measured, power_percent
from andon.explain.evidence.phrasing import phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.model.thresholds import Figure
from andon.model.throttling import POWER_CAP

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


CAPPED: Final = Finding((NO_DATA,), notable=True)


def judge(seen: View) -> Finding | None:
    """Judges a device at its power limit, which is by design: informational."""
    watts, limit = seen.sample.power_watts, seen.sample.power_limit_watts
    capped = POWER_CAP.name in (seen.reasons or ())  # the driver calls it the limit already
    if watts is None or not limit:
        return CAPPED if capped else UNKNOWN
    share, least = 100.0 * watts / limit, seen.figures.power_percent
    if share + TENTH >= least:
        return Finding(ONE, share, least, limit)
    near = share - TENTH >= least - CLEAR_PERCENT
    if capped:
        return Finding((BETWEEN,) if near else (CALM,), share, least, limit, notable=True)
    return NEITHER if near else None


def describe(facts: ConditionFacts) -> Description:
    """How close it is to its limit."""
    now, least, view = facts.value("power_percent"), facts.threshold("%"), facts.device
    watts, limit = view.read("power_watts"), view.read("power_limit_watts")
    text = phrase(
        "{it} is at its power limit: {now} (threshold {least})", facts.it, now=now, least=least
    )
    if facts.finding.notable:
        text = phrase("The driver holds {it} at its power limit", facts.it)
        text += phrase(": {watts} of {limit}", watts=watts, limit=limit)
    more = [watts, limit, view.read("throttle"), measured(view, clock_loss_percent), *clocks(view)]
    return Description(text, more, mild=not loses(view, NOTABLE_PERCENT))


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
    headline="is at its power limit",
    describe=describe,
    measure=power_percent,
    figures=(PERCENT,),
    numbers=clears_below("power_percent", CLEAR_PERCENT),
    unit="percent",
    weight=4,
    behind=("throttle_power", "throttle_thermal", "throttle_hardware", "power_limit_lowered"),
    kinds=(POWER_BOUND,),
    promql=(above(_share, lambda t: t.figures.power_percent, CLEAR_PERCENT),),
)  # fmt: skip
