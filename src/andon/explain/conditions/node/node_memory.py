"""The memory of the node is nearly full."""

from collections.abc import Mapping

from andon.explain.conditions.condition import (
    CRITICAL,
    WARNING,
    Condition,
    Rung,
    Subject,
)
from andon.explain.conditions.description import compared
from andon.explain.conditions.finding import BETWEEN, HOLDS, UNKNOWN, Finding, rung
from andon.explain.conditions.judging import OnNode
from andon.explain.conditions.promql import PromTerms, above
from andon.model.device import Snapshot
from andon.model.thresholds import Figure, Thresholds

PERCENT = Figure(
    "node_memory_percent", 95.0, "how full the node's own memory may be", 1, 100, switch=True
)
CLEAR_PERCENT, CRITICAL_CLEAR_PERCENT = 3, 2
CRITICAL_PERCENT = 3  # above the first threshold


def judge(snapshot: Snapshot, figures: Thresholds) -> Finding | None:
    """Judges how full the memory is, as shown: to a tenth."""
    host, least = snapshot.host, figures.node_memory_percent
    if host.memory_used_bytes is None or not host.memory_total_bytes:
        return UNKNOWN
    now = round(100.0 * host.memory_used_bytes / host.memory_total_bytes, 1)
    if now <= least - CLEAR_PERCENT:
        return None
    worse = least + CRITICAL_PERCENT
    rungs = (
        HOLDS if now >= least else BETWEEN,
        rung(now >= worse, now <= worse - CRITICAL_CLEAR_PERCENT),
    )
    return Finding(rungs, now, least, host.memory_total_bytes)


def _numbers(figures: Thresholds) -> Mapping[str, float | str]:
    least, worse = figures.node_memory_percent, figures.node_memory_percent + CRITICAL_PERCENT
    return {
        "clear": least - CLEAR_PERCENT,
        "critical": worse,
        "critical_clear": worse - CRITICAL_CLEAR_PERCENT,
    }


def _full(t: PromTerms) -> str:
    return t.percent("node_memory_used_bytes", "node_memory_total_bytes")


CONDITION = Condition(
    name="node_memory",
    title="Node memory nearly full",
    subject_kind=Subject.NODE,
    why="The system kills processes when it runs out of memory.",
    advice="See what uses it: ps aux --sort -rss | head",
    judged=OnNode(judge),
    rungs=(
        Rung(WARNING, "{node_memory_percent} % in use", 120, "{clear} %", 120),
        Rung(CRITICAL, "{critical} % in use", 60, "{critical_clear} %", 120),
    ),
    headline="has nearly full memory",
    describe=compared(
        "The memory of {it} is {now} full (threshold {least})", "host.memory_percent"
    ),
    figures=(PERCENT,),
    numbers=_numbers,
    unit="percent",
    weight=11,
    promql=(
        above(_full, lambda t: t.figures.node_memory_percent, CLEAR_PERCENT),
        above(
            _full,
            lambda t: t.figures.node_memory_percent + CRITICAL_PERCENT,
            CRITICAL_CLEAR_PERCENT,
        ),
    ),
)
