"""Low clocks under load for which the driver gives no reason: they may be locked.

A locked clock carries no flag, and no call reports it, so this is shown and never sent.
"""

from andon.explain.conditions.clocks.phrases import clocks, undo
from andon.explain.conditions.condition import INFO, Condition, Rung, clears_below
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import CALM, NEITHER, NO_DATA, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import DEVICE, PromTerms
from andon.explain.evidence.measures import clock_loss_percent
from andon.explain.evidence.phrasing import LIKELY, POSSIBLE, Clause, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.model.thresholds import Figure
from andon.model.throttling import IDLE

PERCENT = Figure(
    "low_clocks_percent",
    30.0,
    "how far below its maximum clock a busy device may run without a reason",
    1,
    100,
    switch=True,
)
CLEAR_PERCENT = 5
BUSY_PERCENT = 50
FULL_PERCENT = 90  # with less to do, a driver may choose a lower clock by itself
FASTEST_STATES = 2  # P0 to P2 are for full speed; in the others a low clock is by design
LOW_CLOCKS = ReasonKind("low_clocks", "under load, without a reason", 52)
ADVICE = "Check for a power-saving mode and for locked clocks."


def judge(seen: View) -> Finding | None:
    """Judges a fully busy device far below its maximum clock without a reported reason."""
    reasons, sample = seen.reasons, seen.sample
    if reasons and reasons != (IDLE.name,):  # a busy device is not idle, whatever the driver says
        return None
    busy, loss = sample.utilization_percent, seen.status.clock_loss_percent
    if busy is None or loss is None:
        return UNKNOWN
    state, most = sample.performance_state, seen.figures.low_clocks_percent
    is_known = reasons is not None and state is not None
    if loss <= most - CLEAR_PERCENT or busy < BUSY_PERCENT:
        return None if is_known else UNKNOWN
    if is_known and busy >= FULL_PERCENT and (state or 0) <= FASTEST_STATES:
        return Finding(ONE, loss, most) if loss > most else NEITHER
    rungs = (CALM if is_known else NO_DATA,)
    return Finding(rungs, loss, most, notable=loss > most)


def describe(facts: ConditionFacts) -> Description:
    """How far the clock is below the maximum, and that no reason is given."""
    loss, view = facts.value("clock_loss_percent"), facts.device
    text = phrase("{it} runs {loss} below its maximum clock", facts.it, loss=loss)
    silent = "" if view.sample.throttle is None else " and gives no reason"
    text += Clause(f"{silent}: its clocks may be locked")
    more = [view.read("utilization_percent"), view.read("throttle"), *clocks(view)]
    more.append(view.read("performance_state"))
    confidence = POSSIBLE if view.sample.throttle is None else LIKELY
    advice = f"{ADVICE} {undo(view.device, '-rgc')}"
    return Description(text, more, view.worker, advice, confidence)


def _low(t: PromTerms, fires: str) -> str:
    low = t.lost_clock(t.figures.low_clocks_percent, CLEAR_PERCENT, fires)
    works = f"{t.m('gpu_utilization_percent')} >= {FULL_PERCENT}"
    fast = f"{t.m('gpu_performance_state')} <= {FASTEST_STATES}"
    any_reason = f"unless on ({DEVICE}) max by ({DEVICE}) ({t.m('gpu_throttle')}) == 1"
    return f"{low} and {works} and {fast} {any_reason}"


CONDITION = Condition(
    name="low_clocks",
    title="Low clocks without a reason",
    why="Its clock is far below the maximum although it is fully busy, and the driver gives no "
    "reason: someone may have locked the clocks, which no driver reports.",
    advice=ADVICE,
    judged=OnReading(judge, reasons=frozenset()),
    rungs=(
        Rung(
            INFO,
            "{low_clocks_percent} % below its maximum clock at 90 % utilisation, in a state of "
            "full speed and without a throttle reason",
            300, "{clear} %, or not in use", 120, notify=False,
        ),
    ),
    headline="is slow without a reason",
    describe=describe,
    measure=clock_loss_percent,
    figures=(PERCENT,),
    numbers=clears_below("low_clocks_percent", CLEAR_PERCENT),
    unit="percent",
    weight=7,
    kinds=(LOW_CLOCKS,),
    promql=(_low,),
)  # fmt: skip
