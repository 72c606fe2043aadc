"""The CPU of the node is busy."""

from andon.explain.conditions.condition import INFO, Condition, Rung, Subject, clears_below
from andon.explain.conditions.description import compared
from andon.explain.conditions.finding import NEITHER, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnNode
from andon.explain.conditions.promql import PromTerms, above
from andon.model.device import Snapshot
from andon.model.thresholds import Figure, Thresholds

PERCENT = Figure("node_cpu_percent", 95.0, "how busy the node's CPU may be", 1, 100, switch=True)
CLEAR_PERCENT = 5


def judge(snapshot: Snapshot, figures: Thresholds) -> Finding | None:
    """Judges how busy the CPU is."""
    now, least = snapshot.host.cpu_percent, figures.node_cpu_percent
    if now is None:
        return UNKNOWN
    if now <= least - CLEAR_PERCENT:
        return None
    return Finding(ONE, now, least) if now >= least else NEITHER


def _busy(t: PromTerms) -> str:
    return f"100 * {t.m('node_cpu_ratio')}"


CONDITION = Condition(
    name="node_cpu",
    title="Node CPU busy",
    subject_kind=Subject.NODE,
    why="Devices wait for the CPU that prepares their data.",
    advice="Use fewer or faster loaders, or more cores.",
    judged=OnNode(judge),
    rungs=(Rung(INFO, "{node_cpu_percent} % busy", 600, "{clear} %", 120, notify=False),),
    headline="has a busy CPU",
    describe=compared("The CPU of {it} is {now} busy", "host.cpu_percent"),
    figures=(PERCENT,),
    numbers=clears_below("node_cpu_percent", CLEAR_PERCENT),
    unit="percent",
    weight=3,
    promql=(above(_busy, lambda t: t.figures.node_cpu_percent, CLEAR_PERCENT),),
)
