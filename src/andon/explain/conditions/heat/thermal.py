"""The device is too hot: shown early, notified near its slowdown temperature."""

from andon.explain.conditions.clocks.phrases import clocks, slower
from andon.explain.conditions.condition import (
    CRITICAL,
    WARNING,
    Condition,
    Rung,
)
from andon.explain.conditions.description import ConditionFacts, Description, span_of
from andon.explain.conditions.finding import BETWEEN, CALM, HOLDS, UNKNOWN, Finding
from andon.explain.conditions.heat.limits import (
    BY_HARDWARE,
    CELSIUS,
    CRITICAL_CELSIUS,
    HEAT_REASONS,
    MARGIN_CELSIUS,
    NOT_THROTTLED,
    NOTIFY_CELSIUS,
    PERHAPS_HEAT,
    critical_from,
    heat_throttling,
    hot_from,
    notify_from,
)
from andon.explain.conditions.heat.memory_heat import ADVICE as MEMORY_ADVICE
from andon.explain.conditions.heat.memory_heat import MEMORY_HEAT, memory_is_the_cause
from andon.explain.conditions.heat.phrases import (
    COOLING_ADVICE,
    HEAT,
    cooling,
    cooling_advice,
    hot_query,
    slowed_query,
)
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import DEVICE, PromTerms
from andon.explain.evidence.forecast import Arrival, Trend, arrival
from andon.explain.evidence.measures import temperature_celsius
from andon.explain.evidence.phrasing import CERTAIN, LIKELY, Clause, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.model.throttling import HW_THERMAL

CLEAR_CELSIUS, CRITICAL_CLEAR_CELSIUS = 5, 3
SOON_SECONDS = 3600.0
HOT = ReasonKind("hot", "near its limits", 62, mild=35)
"""Milder: warm, but far from its own limit."""


def judge(seen: View) -> Finding | None:
    """Judges heat: shown when the device is hot; people are notified near its slowdown
    temperature, or if it is throttled."""
    now, slowdown = seen.sample.temperature_celsius, seen.device.limits.slowdown_celsius
    if now is None:
        return UNKNOWN
    reasons, first = seen.reasons, hot_from(slowdown, seen.figures)
    cool = now <= first - CLEAR_CELSIUS
    if cool and slowdown is not None and (not reasons or HEAT_REASONS.isdisjoint(reasons)):
        return None  # most devices, most of the time
    critical, slowed = critical_from(slowdown, seen.figures), NOT_THROTTLED
    if reasons and not PERHAPS_HEAT.isdisjoint(reasons):
        slowed = heat_throttling(reasons, now, slowdown, seen.figures)
    hardware, throttled = slowed is BY_HARDWARE, slowed is not NOT_THROTTLED
    well_below = now <= critical - CRITICAL_CLEAR_CELSIUS and not hardware
    if cool and well_below:
        return None
    hot, calm = now >= first, CALM if cool else BETWEEN
    rungs = (
        HOLDS if hot else calm,
        HOLDS if hot and (throttled or now >= notify_from(slowdown, seen.figures)) else calm,
        HOLDS if hot and (now >= critical or hardware) else CALM if well_below else BETWEEN,
    )
    if cool and now <= critical - CRITICAL_CLEAR_CELSIUS:
        return Finding(rungs)  # throttled by the hardware although it is cool: no number to show
    return Finding(rungs, now, first, slowdown, slowed)


def describe(facts: ConditionFacts) -> Description:
    """How hot it is, what its limits are, and when it reaches the next one."""
    found, view, slowed = facts.finding, facts.device, facts.finding.about or NOT_THROTTLED
    now, most = facts.value("temperature_celsius"), facts.limit("slowdown_celsius")
    text, least = phrase("{it} is too hot: {now}", facts.it, now=now), facts.threshold("°C")
    if most is None:
        text += phrase(" (alert above {least})", least=least)
    elif (found.value or 0) < (found.limit or 0):
        text += phrase(" (alert above {least}, slows down at {most})", least=least, most=most)
    else:
        text += phrase(" (slows down at {most})", most=most)
    by_memory = slowed is not NOT_THROTTLED and memory_is_the_cause(view)
    if slowed is not NOT_THROTTLED:
        text += Clause(", thermally throttled") + (_by_memory(view) if by_memory else Clause())
        text += slower(view)
    when = _slows_down(found, view.track.heat_trend)
    if when is not None:
        text += Clause(", reached in ") + span_of("slowdown_in", when) + Clause(" at this rate")
    more = [*cooling(view), view.read("power_watts")]
    if slowed is NOT_THROTTLED:
        kind, mild = HOT, found.rungs[1] is not HOLDS
    else:
        kind, mild = HEAT, slowed is not BY_HARDWARE
        if by_memory:
            kind, mild = MEMORY_HEAT, False
        more = [view.read("throttle"), *clocks(view), *more]
    certain = kind is HOT or (kind is HEAT and not HEAT_REASONS.isdisjoint(view.reasons or ()))
    advice = MEMORY_ADVICE if by_memory else cooling_advice(view)
    sure = CERTAIN if certain else LIKELY
    return Description(text, more, view.worker, advice, sure, kind, mild)


def _by_memory(view: View) -> Clause:
    return phrase(" by its memory ({m})", m=view.read("memory_temperature_celsius"))


def _slows_down(found: Finding, trend: Trend | None) -> Arrival | None:
    """Returns when the device reaches its slowdown temperature, if it warms steadily and soon."""
    if trend is None or found.limit is None or found.value is None or found.value >= found.limit:
        return None
    when = arrival(trend, found.limit - found.value)
    return when if when is not None and when.seconds <= SOON_SECONDS else None


def _shown(t: PromTerms, fires: str) -> str:
    temp, first, _ = hot_query(t)
    return f"{temp} >= {first} or ({temp} > {first} - {CLEAR_CELSIUS} and {fires})"


def _notified(t: PromTerms, fires: str) -> str:
    temp, first, _ = hot_query(t)
    slowdown = t.m("gpu_slowdown_temperature_celsius")
    near = (
        f"({slowdown} - {t.figures.thermal_margin_celsius:g} or "
        f"{temp} * 0 + {t.figures.thermal_notify_celsius:g})"
    )
    hot = f"({temp} >= {near} or {temp} and on ({DEVICE}) ({slowed_query(t)}))"
    return f"({hot} and {temp} >= {first}) or ({temp} > {first} - {CLEAR_CELSIUS} and {fires})"


def _critical(t: PromTerms, fires: str) -> str:
    temp, first, critical = hot_query(t)
    hardware = t.reason(HW_THERMAL.name)
    hot = f"({temp} >= {critical} or {temp} and on ({DEVICE}) {hardware})"
    near = f"{critical} - {CRITICAL_CLEAR_CELSIUS}"
    lasts = f"({temp} > {near} or {temp} and on ({DEVICE}) {hardware})"
    return f"({hot} and {temp} >= {first}) or ({lasts} and {fires})"


CONDITION = Condition(
    name="thermal",
    title="Too hot",
    why="Heat shortens a device's life, and above its slowdown temperature it costs speed. A "
    "device without a known slowdown temperature notifies from {thermal_notify_celsius} °C; "
    "{thermal_critical_celsius} °C is critical.",
    advice=COOLING_ADVICE,
    judged=OnReading(judge),
    possible_if=(
        "temperature_celsius >= thermal_celsius or "
        "slowdown_margin_celsius <= thermal_margin_celsius",
    ),
    rungs=(
        Rung(
            WARNING,
            "at {thermal_celsius} °C, or {thermal_margin_celsius} °C below its slowdown "
            "temperature if that is lower",
            60, f"{CLEAR_CELSIUS} °C below that", 120, notify=False,
        ),
        Rung(
            WARNING,
            "that, and within {thermal_margin_celsius} °C of its slowdown temperature or "
            "thermally throttled",
            60, "as above", 120,
        ),
        Rung(
            CRITICAL,
            "that, and at its slowdown temperature or throttled by the hardware",
            30,
            f"{CRITICAL_CLEAR_CELSIUS} °C below its slowdown temperature, and not throttled by the "
            "hardware",
            120,
        ),
    ),
    label="too hot",
    headline="is too hot",
    rising="getting too hot",
    describe=describe,
    measure=temperature_celsius,
    figures=(CELSIUS, MARGIN_CELSIUS, NOTIFY_CELSIUS, CRITICAL_CELSIUS),
    unit="celsius",
    weight=18,
    kinds=(HOT, HEAT, MEMORY_HEAT),
    promql=(_shown, _notified, _critical),
)  # fmt: skip
