"""Low clocks under load for which the driver gives no reason: they may be locked.

A locked clock carries no flag, and no call reports it, so this is shown and never sent.
"""

from andon.explain.conditions.clocks.phrases import clocks, loses, loss_now, undo
from andon.explain.conditions.condition import INFO, AlertFacts, Condition, Rung
from andon.explain.evidence.view import View
from andon.explain.conditions.finding import NEITHER, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import DEVICE, PromTerms
from andon.explain.conditions.wording import clears_below, percent, was
from andon.explain.evidence.measures import clock_loss_percent, measured
from andon.explain.evidence.phrasing import LIKELY, POSSIBLE, conclude, say
from andon.explain.evidence.reasons import Reason, ReasonKind
from andon.explain.evidence.view import Explanation, View
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
FULL_PERCENT = 90  # with less to do, a driver may choose a lower clock by itself
FASTEST_STATES = 2  # P0 to P2 are for full speed; in the others a low clock is by design
LOW_CLOCKS = ReasonKind("low_clocks", "under load, without a reason", 52)
ADVICE = "Check for a power-saving mode and for locked clocks."


def judge(seen: View) -> Finding | None:
    """Judges a fully busy device far below its maximum clock without a reported reason."""
    reasons, sample, highest = seen.reasons, seen.sample, seen.device.limits.sm_clock_mhz
    if reasons is None or not highest:
        return UNKNOWN
    if reasons:
        return None
    busy, state, clock = sample.utilization_percent, sample.performance_state, sample.sm_clock_mhz
    if busy is None or state is None or clock is None:
        return UNKNOWN
    loss, most = 100.0 * (1 - clock / highest), seen.figures.low_clocks_percent
    if loss <= most - CLEAR_PERCENT or busy < FULL_PERCENT or state > FASTEST_STATES:
        return None
    return Finding(ONE, loss, most) if loss > most else NEITHER


def sentence(facts: AlertFacts) -> str:
    loss = f"{facts.it} runs {percent(facts.finding.value)} below its maximum clock"
    return f"{loss} and gives no reason: its clocks may be locked"


def advise(facts: AlertFacts) -> str | None:
    return None if facts.device is None else f"{ADVICE} {undo(facts.device, '-rgc')}"


def explain(view: View) -> Reason | None:
    """Low clocks under load, without a reason."""
    reasons = [name for name in view.sample.throttle or () if name != IDLE.name]
    if reasons or not view.busy or not loses(view, view.figures.low_clocks_percent):
        return None
    text = say(
        "Clock {loss} below maximum although the GPU is {u} busy; the driver gives no reason",
        loss=measured(view, clock_loss_percent),
        u=view.read("utilization_percent"),
    )
    worker = view.worker()
    more = [view.read("throttle"), *clocks(view), view.read("performance_state")]
    confidence = LIKELY if view.sample.throttle is not None else POSSIBLE
    advice = f"{ADVICE} {undo(view.status.device, '-rgc')}"
    return conclude(LOW_CLOCKS, confidence, text, [*more, *view.who(worker)], worker, advice)


def _low(t: PromTerms, fires: str) -> str:
    clock, highest = t.m("gpu_sm_clock_hertz"), t.m("gpu_sm_clock_limit_hertz")
    loss, most = f"100 * (1 - {clock} / {highest})", t.figures.low_clocks_percent
    low = f"({loss} > {most:g} or ({loss} > {most - CLEAR_PERCENT:g} and {fires}))"
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
    sentence=sentence,
    recovered=was("slow without a reason", "% below its maximum clock"),
    measure=loss_now,
    advise=advise,
    figures=(PERCENT,),
    numbers=clears_below("low_clocks_percent", CLEAR_PERCENT),
    unit="percent",
    weight=7,
    reasons=(Explanation(explain, (LOW_CLOCKS,)),),
    promql=(_low,),
)  # fmt: skip
