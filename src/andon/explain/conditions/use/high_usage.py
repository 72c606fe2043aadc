"""The device is in use: worth knowing before you start."""

from andon.explain.conditions.condition import INFO, Condition, Rung, clears_below
from andon.explain.conditions.description import compared
from andon.explain.conditions.finding import NEITHER, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import PromTerms, above
from andon.explain.evidence.measures import utilization_percent
from andon.explain.evidence.view import View
from andon.model.thresholds import Figure

PERCENT = Figure(
    "high_usage_percent",
    50.0,
    "the utilisation from which a device is shown as in use",
    0,
    100,
    switch=True,
)
CLEAR_PERCENT = 10


def judge(seen: View) -> Finding | None:
    """Judges whether the device is in use."""
    now, most = seen.sample.utilization_percent, seen.figures.high_usage_percent
    if now is None:
        return UNKNOWN
    if now <= most - CLEAR_PERCENT:
        return None
    return Finding(ONE, now, most) if now > most else NEITHER


def _busy(t: PromTerms) -> str:
    return t.m("gpu_utilization_percent")


CONDITION = Condition(
    name="high_usage",
    title="In use",
    why="It is in use: worth knowing before you start.",
    advice="Nothing to do: this is normal.",
    judged=OnReading(judge),
    listed=False,
    rungs=(
        Rung(INFO, "utilisation above {high_usage_percent} %", 60, "{clear} %", 60, notify=False),
    ),
    headline="is in use",
    describe=compared("{it} is in use: {now}", "utilization_percent"),
    measure=utilization_percent,
    figures=(PERCENT,),
    numbers=clears_below("high_usage_percent", CLEAR_PERCENT),
    unit="percent",
    promql=(above(_busy, lambda t: t.figures.high_usage_percent, CLEAR_PERCENT, strictly=True),),
)
