"""The memory is nearly full: worth knowing, not a problem."""

from andon.explain.conditions.condition import INFO, Condition, Rung
from andon.explain.evidence.view import View
from andon.explain.conditions.finding import NEITHER, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import TENTH, OnReading
from andon.explain.conditions.memory.phrases import hoarder, is_full
from andon.explain.conditions.promql import PromTerms, above
from andon.explain.conditions.wording import clears_below, reading, valued, was
from andon.explain.evidence.blame import unattributed_bytes
from andon.explain.evidence.measures import measured, memory_percent, memory_unattributed_bytes
from andon.explain.evidence.phrasing import CERTAIN, Clause, conclude, say
from andon.explain.evidence.reasons import Evidence, Reason, ReasonKind
from andon.explain.evidence.view import Explanation, View, after_colon, part_of_whole
from andon.model.thresholds import Figure
from andon.units import GIB

PERCENT = Figure(
    "memory_percent",
    90.0,
    "the share of its memory from which a device is shown as full",
    1,
    100,
    switch=True,
)
CLEAR_PERCENT = 3
TIGHT_BYTES = GIB  # less than this may not be enough for another allocation
MEMORY_FULL = ReasonKind("memory_full", "nearly full, held by busy processes", 16, mild=8)
"""Milder: there is room for another allocation."""


def judge(seen: View) -> Finding | None:
    """Judges full memory: by design, so informational."""
    used, total = seen.sample.memory_used_bytes, seen.device.memory_total_bytes
    if used is None or not total:
        return UNKNOWN
    share, least = 100.0 * used / total + TENTH, seen.figures.memory_percent
    if share < least - CLEAR_PERCENT + 2 * TENTH:
        return None
    return Finding(ONE, share, least, total) if share >= least else NEITHER


def explain(view: View) -> Reason | None:
    """Explains nearly full memory of busy processes: normal, but worth knowing who holds it."""
    if not is_full(view) or hoarder(view) is not None or _mostly_unexplained(view):
        return None
    holder = view.holder(view.processes)
    text = say("Memory is {share} full", share=measured(view, memory_percent))
    text = text + after_colon(part_of_whole(view, "memory_used_bytes", view.total()))
    more: list[Evidence | None] = [view.read("memory_free_bytes"), *view.who(holder)]
    if holder is not None:
        held = view.of_process(holder, "memory_bytes")
        text = text + Clause("; ") + view.naming(holder) + say(" holds {held}", held=held)
    tight = _is_tight(view)
    advice = "Nothing to do if intended: training and inference servers fill memory by design."
    if tight:
        advice = "The next allocation may fail; a smaller batch or cache leaves room."
    return conclude(MEMORY_FULL, CERTAIN, text, more, holder, advice, mild=not tight)


def _is_tight(view: View) -> bool:
    free, used = view.sample.memory_free_bytes, view.sample.memory_used_bytes
    if free is None and used is not None:
        total = view.status.device.memory_total_bytes
        free = None if total is None else total - used
    return free is not None and free < TIGHT_BYTES


def _mostly_unexplained(view: View) -> bool:
    if not unattributed_bytes(view.status, bool(view.instances)):
        return False
    used, spare = view.sample.memory_used_bytes, memory_unattributed_bytes(view)
    return (spare or 0) > (used or 0) / 2


def _share(t: PromTerms) -> str:
    return t.percent("gpu_memory_used_bytes", "gpu_memory_total_bytes")


CONDITION = Condition(
    name="memory",
    title="Memory nearly full",
    why="Training and inference servers fill memory by design: worth knowing, not a problem.",
    advice="Nothing to do if this is intended; the next allocation may fail.",
    judged=OnReading(judge),
    rungs=(
        Rung(INFO, "{memory_percent} % of its memory in use", 60, "{clear} %", 120, notify=False),
    ),
    sentence=valued("The memory of {it} is {now} full (threshold {least})"),
    recovered=was("nearly full", "%", "The memory of {it}"),
    measure=reading("memory_percent"),
    figures=(PERCENT,),
    numbers=clears_below("memory_percent", CLEAR_PERCENT),
    unit="percent",
    weight=6,
    reasons=(Explanation(explain, (MEMORY_FULL,)),),
    promql=(above(_share, lambda t: t.figures.memory_percent, CLEAR_PERCENT),),
)
