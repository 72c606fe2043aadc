"""The device is held and nothing runs on it."""

from typing import Final

from andon.explain.conditions.condition import (
    WARNING,
    AlertFacts,
    Condition,
    Precondition,
    Rung,
)
from andon.explain.evidence.view import View
from andon.explain.conditions.finding import CALM, ENDED, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnHeld
from andon.explain.conditions.memory.phrases import hoarder, idle_confidence
from andon.explain.conditions.promql import LEASES_ARE_NO_METRIC
from andon.explain.conditions.sharing.phrases import (
    Holders,
    holder_evidence,
    lasting,
    release_advice,
)
from andon.explain.conditions.use.phrases import settled
from andon.explain.evidence.measures import idle_seconds, measured, utilization_max_percent
from andon.explain.evidence.phrasing import Clause, conclude, say
from andon.explain.evidence.reasons import Reason, ReasonKind
from andon.explain.evidence.view import Explanation, View
from andon.model.device import Process
from andon.model.thresholds import Figure
from andon.model.utilisation import BARELY_BUSY_PERCENT, ZERO_READING

SECONDS = Figure(
    "idle_seconds", 300.0, "how long a device may be occupied but idle", 1, 31_536_000, switch=True
)
IN_USE: Final = Finding((CALM,))
IDLE_HELD = ReasonKind("idle_held", "held but idle", 33)


def judge(seen: View) -> Finding:
    """Judges a device that is held by a lease and on which nothing runs."""
    held, now = seen.held, seen.sample.utilization_percent
    if held is None:
        return ENDED
    if now is None:
        return UNKNOWN
    if now > ZERO_READING:
        return IN_USE
    return Finding(ONE, now, seen.figures.idle_seconds, about=Holders((held,)))


def sentence(facts: AlertFacts) -> str:
    about = facts.finding.about
    user = about.holders[0].user if isinstance(about, Holders) else None
    return lasting(f"{facts.it} is reserved{f' by {user}' if user else ''} but idle", facts)


def explain(view: View) -> Reason | None:
    """Explains a device that a process holds and on which nothing runs."""
    lasted, most = idle_seconds(view), utilization_max_percent(view)
    if not settled(view) or not lasted or most is None or most > BARELY_BUSY_PERCENT:
        return None  # one sample, or a pause in the last minute, does not mean idle
    if any(p.utilization_percent for p in view.compute) or hoarder(view) is not None:
        return None
    text = say("Idle but occupied: {u}", u=view.read("utilization_percent"))
    text = text + say(" for {s}", s=measured(view, idle_seconds))
    holder = view.holder(view.compute) or (view.compute[0] if len(view.compute) == 1 else None)
    text = text + Clause(", ") + _holding(view, holder)
    more = [view.derived("processes", len(view.processes)), *view.who(holder)]
    advice = (
        "Ask its owner whether it is still needed. A notebook holds it until its kernel ends; an "
        "inference server without requests looks the same."
    )
    return conclude(IDLE_HELD, idle_confidence(lasted), text, more, holder, advice)


def _holding(view: View, holder: Process | None) -> Clause:
    if holder is None:
        return say("{n} processes hold it", n=view.derived("compute", len(view.compute)))
    held = say(" holds {held}", held=view.of_process(holder, "memory_bytes"))
    return view.naming(holder) + (held or Clause(" holds it"))


CONDITION = Condition(
    name="idle",
    title="Reserved but idle",
    why="It is held and nothing runs on it, while others may be waiting.",
    advice="Ask its owner whether it is still needed; releasing the lease frees it.",
    judged=OnHeld(judge),
    rungs=(
        Rung(
            WARNING,
            "held by a lease, job or run, and its utilisation is 0",
            300, "in use for 30 s, or no longer held", 30, for_figure=SECONDS.name,
        ),
    ),
    label="reserved but idle",
    headline="is reserved but idle",
    sentence=sentence,
    advise=release_advice,
    evidence=holder_evidence,
    figures=(SECONDS,),
    unit="seconds",
    needs=Precondition.LEASES,
    weight=2,
    behind=("thermal",),
    reasons=(Explanation(explain, (IDLE_HELD,)),),
    promql=LEASES_ARE_NO_METRIC,
)  # fmt: skip
