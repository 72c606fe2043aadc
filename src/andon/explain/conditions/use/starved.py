"""The device waits for data although there is work; only `why` mentions it."""

from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.judging import OnRequest
from andon.explain.conditions.use.phrases import competing, settled
from andon.explain.evidence.measures import (
    measured,
    power_percent,
    recent_seconds,
    utilization_max_percent,
    utilization_mean_percent,
    utilization_min_percent,
)
from andon.explain.evidence.phrasing import LIKELY, POSSIBLE, Clause, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.model.utilisation import BARELY_BUSY_PERCENT

SOME_SECONDS = 30.0
LOW_PERCENT = 40.0
BURST_PERCENT = 60
BURST_MEAN_PERCENT = 75.0
BURST_SAMPLES = 4
VIDEO_PERCENT = 50  # a device that decodes video may compute little
CPU_BUSY_PERCENT = 90.0
STARVED = ReasonKind("starved", "there is work, but the device waits for data", 28)
ADVICE = (
    "It waits for data, the CPU or requests: try more loader workers, faster storage or larger "
    "batches. Normal for a server with few requests."
)


def explain(view: View) -> Description | None:
    """Explains a device that waits although there is work: low or bursty utilisation."""
    mean, most = utilization_mean_percent(view), utilization_max_percent(view)
    if not settled(view) or mean is None or most is None or most <= BARELY_BUSY_PERCENT:
        return None
    if view.at_least("decoder_percent", VIDEO_PERCENT) or competing(view):
        return None
    bursty = _is_bursty(view)
    if mean >= LOW_PERCENT and not bursty:
        return None
    cpu = view.host("cpu_percent")
    strained = (view.snapshot.host.cpu_percent or 0) >= CPU_BUSY_PERCENT
    text = _how_busy(view, bursty)
    text = text + phrase(", and the node's CPU is {c} busy", c=cpu if strained else None)
    sure = strained or (recent_seconds(view) or 0.0) >= SOME_SECONDS
    more = [measured(view, power_percent), cpu]
    return Description(text, more, view.worker, ADVICE, LIKELY if sure else POSSIBLE)


def _is_bursty(view: View) -> bool:
    least, most = utilization_min_percent(view), utilization_max_percent(view)
    mean = utilization_mean_percent(view)
    if least is None or most is None or mean is None or len(view.past) < BURST_SAMPLES:
        return False
    return most - least >= BURST_PERCENT and mean < BURST_MEAN_PERCENT


def _how_busy(view: View, bursty: bool) -> Clause:
    mean, span = measured(view, utilization_mean_percent), measured(view, recent_seconds)
    least, most = measured(view, utilization_min_percent), measured(view, utilization_max_percent)
    if bursty:
        text = phrase("Bursty: between {a} and {b} busy", a=least, b=most)
    else:
        text = phrase("Mostly idle: {m} busy", m=mean)
    more = [one for one in (mean, least, most) if one is not None]
    return text + phrase(" over the last {s}", s=span) + Clause("", tuple(more))


CONDITION = Condition(
    name="starved",
    title="Waits for data",
    why="There is work, but the device waits: its utilisation is low or comes in bursts.",
    advice=ADVICE,
    judged=OnRequest(explain),
    kinds=(STARVED,),
)
