"""The memory rises steadily and will soon be full."""

from collections.abc import Mapping
from typing import NamedTuple

from andon.explain.conditions import triggers
from andon.explain.conditions.condition import WARNING, AlertFacts, Condition, Rung
from andon.explain.evidence.view import View
from andon.explain.conditions.finding import UNKNOWN, Finding, rung
from andon.explain.conditions.judging import TENTH, OnReading
from andon.explain.evidence.track import Track
from andon.explain.conditions.wording import bounds_of, span_of
from andon.explain.evidence.forecast import Arrival, Trend, arrival
from andon.explain.evidence.growth import Growth, growth
from andon.explain.evidence.phrasing import LIKELY, POSSIBLE, Clause, conclude, say
from andon.explain.evidence.reasons import Reason, ReasonKind
from andon.explain.evidence.view import Explanation, View
from andon.model.thresholds import Figure, Thresholds
from andon.units import human_bytes, human_seconds

SECONDS = Figure(
    "leak_seconds",
    3600.0,
    "notify if growing memory would be full within this time",
    1,
    31_536_000,
    switch=True,
)
PERCENT = Figure("leak_percent", 50.0, "how full the memory must be for that alert", 0, 100)
CLEAR_SHARE = 0.9
CLEAR_TIMES = 2.0
SURELY_SECONDS = 600.0  # a shorter past cannot show a trend
SOON_SECONDS = 3600.0
LONG_SECONDS = 300.0
LEAK = ReasonKind("memory_leak", "memory rises steadily", 65, mild=47)
"""Milder: more than an hour until it is full."""
ADVICE = "Save the work before memory runs out, and check what is kept at each step."


class Filling(NamedTuple):
    """How fast it rises, and when it is full."""

    trend: Trend
    full: Arrival


def judge(seen: View) -> Finding | None:
    """Memory rises steadily and will be full within the configured time."""
    used, total = seen.sample.memory_used_bytes, seen.device.memory_total_bytes
    if used is None or not total:
        return UNKNOWN
    share, figures = 100.0 * used / total + TENTH, seen.figures
    if share < CLEAR_SHARE * figures.leak_percent or seen.divided:
        return None
    found = seen.track.memory_trend
    if found is None:
        return _without_trend(seen.track) if seen.track.unsure else None
    free = seen.sample.memory_free_bytes
    full = arrival(found, total - used if free is None else free)
    if full is None or full.seconds > CLEAR_TIMES * figures.leak_seconds:
        return None
    soon = full.seconds <= figures.leak_seconds and share >= figures.leak_percent
    rungs, about = (rung(soon, calm=False),), Filling(found, full)
    return Finding(rungs, full.seconds, figures.leak_seconds, total, about)


def _without_trend(track: Track) -> Finding | None:
    """Judges without a trend: if earlier readings are missing, it is calm only if there are many
    since."""
    points = track.memory
    short = not points or points[-1][0] - points[0][0] < SURELY_SECONDS
    return UNKNOWN if short else None


def sentence(facts: AlertFacts) -> str:
    about = facts.finding.about
    if not isinstance(about, Filling):
        return f"{facts.it}: memory keeps growing"
    rate = human_bytes(about.trend.slope * 60)
    text = f"{facts.it}: memory grows by {rate} a minute"
    return f"{text} and will be full in {span_of(about.full)}"


def evidence(found: Finding) -> Mapping[str, float | str]:
    about = found.about
    if not isinstance(about, Filling):
        return {}
    return {"growth_bytes_per_second": about.trend.slope, **bounds_of("full_in", about.full)}


def explain(view: View) -> Reason | None:
    """Memory rises steadily over at least a minute."""
    found = growth(view)
    if found is None or not view.owns_memory:
        return None
    rate = view.derived("memory_growth_bytes_per_second", found.bytes_per_second)
    more = [rate, view.read("memory_used_bytes"), view.read("memory_free_bytes")]
    more = [*more, *view.who(found.process)]
    soon = found.full_in_seconds is not None and found.full_in_seconds <= SOON_SECONDS
    confidence = LIKELY if found.seconds >= LONG_SECONDS else POSSIBLE
    text = _growing(view, found)
    return conclude(LEAK, confidence, text, more, found.process, ADVICE, mild=not soon)


def _growing(view: View, found: Growth) -> Clause:
    text = say(
        "Memory grows steadily: by {rise} in {seconds}",
        rise=view.derived("memory_rise_bytes", found.rise_bytes),
        seconds=view.derived("memory_rise_seconds", found.seconds),
    )
    left = view.derived("full_in_seconds", found.full_in_seconds)
    return text + say("; full in {left} at this rate", left=left)


def _numbers(figures: Thresholds) -> Mapping[str, float | str]:
    return {
        "time": human_seconds(figures.leak_seconds),
        "clear_time": human_seconds(CLEAR_TIMES * figures.leak_seconds),
        "clear": figures.leak_percent * CLEAR_SHARE,
    }


CONDITION = Condition(
    name="memory_leak",
    title="Memory keeps growing",
    why="At this rate memory will run out and the work will fail.",
    advice=ADVICE,
    judged=OnReading(judge),
    lit_if=triggers.never,
    rungs=(
        Rung(
            WARNING,
            "{leak_percent} % full, and rising steadily for ten minutes, by 5 % or more, so that "
            "it fills within {time}",
            60, "no such rise, or {clear_time}, or below {clear} %", 120,
        ),
    ),
    label="filling up",
    headline="is running out of memory",
    sentence=sentence,
    evidence=evidence,
    figures=(SECONDS, PERCENT),
    numbers=_numbers,
    unit="seconds",
    weight=10,
    reasons=(Explanation(explain, (LEAK,)),),
    promql="a robust trend with its uncertainty cannot be expressed in PromQL",
)  # fmt: skip
