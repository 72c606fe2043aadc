"""Someone set the clocks of a busy device low."""

from typing import Final

from andon.explain.conditions.clocks.phrases import (
    CLOCKS_SET,
    clocks,
    undo,
)
from andon.explain.conditions.condition import (
    WARNING,
    Condition,
    Rung,
    clears_below,
)
from andon.explain.conditions.description import ConditionFacts, Description, lately
from andon.explain.conditions.finding import NEITHER, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import DEVICE, PromTerms
from andon.explain.evidence.measures import clock_loss_percent
from andon.explain.evidence.phrasing import phrase
from andon.explain.evidence.view import View
from andon.model.thresholds import Figure
from andon.model.throttling import CLOCKS_SET as CLOCKS_SET_REASON
from andon.model.throttling import REASONS, ThrottleKind

PERCENT = Figure(
    "clocks_set_percent",
    20.0,
    "how much of the clock a setting may cost a device in use",
    1,
    100,
    switch=True,
)
CLEAR_PERCENT = 5
BUSY_PERCENT = 50
BY_SETTING = (CLOCKS_SET_REASON.name,)
OTHER_CAUSES: Final = frozenset(
    reason.name
    for reason in REASONS
    if reason.kind in (ThrottleKind.POWER, ThrottleKind.THERMAL, ThrottleKind.HARDWARE)
)
"""Where one of these is active too, the loss may be theirs; they have their own conditions."""
UNDO = ("-rac", "-rgc")
"""Application clocks and locked ones: the driver does not say which of them it is."""


def judge(seen: View) -> Finding | None:
    """Judges a setting that costs a busy device more than 20 % of its clock."""
    reasons, loss = seen.reasons, seen.status.clock_loss_percent
    if reasons is None or not seen.device.limits.sm_clock_mhz:
        return UNKNOWN
    if CLOCKS_SET_REASON.name not in reasons:
        return None
    busy = seen.sample.utilization_percent
    if busy is not None and busy < BUSY_PERCENT:
        return None
    if busy is None or loss is None:
        return UNKNOWN
    if not OTHER_CAUSES.isdisjoint(reasons):
        return NEITHER
    most = seen.figures.clocks_set_percent
    if loss <= most - CLEAR_PERCENT:
        return None
    return Finding(ONE, loss, most) if loss > most else NEITHER


def describe(facts: ConditionFacts) -> Description:
    """What the setting costs, and how to undo it."""
    loss, limit = facts.value("clock_loss_percent"), facts.threshold("%")
    text = phrase("{it} runs {loss} below its maximum clock", facts.it, loss=loss)
    text += phrase(" because someone set its clocks (threshold {limit})", limit=limit)
    view = facts.device
    more = [view.read("throttle"), *clocks(view)]
    return Description(text + lately(view, BY_SETTING), more, advice=undo(view.device, *UNDO))


def _set_low(t: PromTerms, fires: str) -> str:
    low = t.lost_clock(t.figures.clocks_set_percent, CLEAR_PERCENT, fires)
    works = f"{t.m('gpu_utilization_percent')} >= {BUSY_PERCENT}"
    other = f"unless on ({DEVICE}) {t.reason(*OTHER_CAUSES)}"
    return f"{low} and {works} and on ({DEVICE}) {t.reason(*BY_SETTING)} {other}"


CONDITION = Condition(
    name="clocks_set",
    title="Clocks set low",
    why="Someone set application clocks or locked the clocks, and it costs the work more than "
    "{clocks_set_percent} % of the clock.",
    advice="Restore the default clocks: sudo nvidia-smi -i N -rac for application clocks, "
    "sudo nvidia-smi -i N -rgc for locked ones.",
    judged=OnReading(judge, reasons=frozenset(BY_SETTING)),
    rungs=(
        Rung(
            WARNING,
            "in use, and more than {clocks_set_percent} % below its maximum clock because of a "
            "setting",
            300, "{clear} %, or not in use", 120,
        ),
    ),
    label="clocks set low",
    headline="is slowed by set clocks",
    describe=describe,
    measure=clock_loss_percent,
    figures=(PERCENT,),
    numbers=clears_below("clocks_set_percent", CLEAR_PERCENT),
    unit="percent",
    weight=8,
    kinds=(CLOCKS_SET,),
    promql=(_set_low,),
)  # fmt: skip
