"""The memory is nearly full: worth knowing, not a problem."""

from andon.explain.conditions.condition import INFO, Condition, Rung, clears_below
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import NEITHER, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import TENTH, OnReading
from andon.explain.conditions.promql import PromTerms, above
from andon.explain.evidence.measures import memory_percent
from andon.explain.evidence.phrasing import phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
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
    share, least = 100.0 * used / total, seen.figures.memory_percent
    if share - TENTH < least - CLEAR_PERCENT:
        return None
    return Finding(ONE, share, least, total) if share + TENTH >= least else NEITHER


def describe(facts: ConditionFacts) -> Description:
    """How full it is, and who holds most of it."""
    now, least, view = facts.value("memory_percent"), facts.threshold("%"), facts.device
    text = phrase(
        "The memory of {it} is {now} full (threshold {least})", facts.it, now=now, least=least
    )
    room = view.room_bytes
    tight = room is not None and room < TIGHT_BYTES
    more = [view.read("memory_used_bytes"), view.total(), view.read("memory_free_bytes")]
    advice = "The next allocation may fail; a smaller batch or cache leaves room." if tight else ""
    return Description(text, more, view.holder, advice, mild=not tight)


def _share(t: PromTerms) -> str:
    return t.percent("gpu_memory_used_bytes", "gpu_memory_total_bytes")


CONDITION = Condition(
    name="memory",
    title="Memory nearly full",
    why="Worth knowing, not a problem: the next allocation may fail.",
    advice="Nothing to do if intended: training and inference servers fill memory by design.",
    judged=OnReading(judge),
    rungs=(
        Rung(INFO, "{memory_percent} % of its memory in use", 60, "{clear} %", 120, notify=False),
    ),
    headline="has nearly full memory",
    describe=describe,
    measure=memory_percent,
    figures=(PERCENT,),
    numbers=clears_below("memory_percent", CLEAR_PERCENT),
    unit="percent",
    weight=6,
    behind=("idle_memory",),
    kinds=(MEMORY_FULL,),
    promql=(above(_share, lambda t: t.figures.memory_percent, CLEAR_PERCENT),),
)
