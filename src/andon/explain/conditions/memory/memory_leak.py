"""The memory rises steadily and will soon be full."""

from collections.abc import Mapping
from typing import NamedTuple

from andon.explain.conditions.condition import WARNING, Condition, Rung
from andon.explain.conditions.description import ConditionFacts, Description, span_of
from andon.explain.conditions.finding import UNKNOWN, Finding, rung
from andon.explain.conditions.judging import TENTH, OnReading
from andon.explain.evidence.forecast import Arrival, Trend, arrival
from andon.explain.evidence.growth import grower
from andon.explain.evidence.phrasing import Clause, phrase
from andon.explain.evidence.reasons import Evidence, ReasonKind
from andon.explain.evidence.track import Track
from andon.explain.evidence.view import View
from andon.model.thresholds import Figure, Thresholds
from andon.units import human_seconds

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
LEAK = ReasonKind("memory_leak", "memory rises steadily", 65, mild=47)
"""Milder: more than an hour until it is full."""
ADVICE = "Save the work before memory runs out, and check what is kept at each step."


class Filling(NamedTuple):
    """How fast it rises, and when it is full."""

    trend: Trend
    full: Arrival


def judge(seen: View) -> Finding | None:
    """Judges memory that rises steadily and will be full within the configured time."""
    used, total = seen.sample.memory_used_bytes, seen.device.memory_total_bytes
    if used is None or not total:
        return UNKNOWN
    share, figures = 100.0 * used / total + TENTH, seen.figures
    if share < CLEAR_SHARE * figures.leak_percent or seen.divided:
        return None
    found = seen.track.memory_trend
    if found is None:
        return _without_trend(seen.track) if seen.track.unsure else None
    full = arrival(found, seen.room_bytes or 0)
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


def describe(facts: ConditionFacts) -> Description:
    """How fast it rises, and when it is full."""
    about: Filling = facts.finding.about
    view = facts.device
    slope = about.trend.slope
    rate = Evidence("growth_bytes_per_minute", slope * 60, "bytes")
    text = phrase("{it}: memory grows by {rate} a minute", facts.it, rate=rate)
    text += Clause(" and will be full in ") + span_of("full_in", about.full)
    per_second = Evidence("growth_bytes_per_second", slope, "bytes/s")
    more = [per_second, view.read("memory_used_bytes"), view.read("memory_free_bytes")]
    return Description(text, more, lambda: grower(view))


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
    possible_if=None,
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
    describe=describe,
    figures=(SECONDS, PERCENT),
    numbers=_numbers,
    unit="seconds",
    weight=10,
    kinds=(LEAK,),
    promql="a robust trend with its uncertainty cannot be expressed in PromQL",
)  # fmt: skip
