"""The device is too hot: shown early, notified near its slowdown temperature."""

from collections.abc import Mapping
from typing import NamedTuple

from andon.explain.conditions import triggers
from andon.explain.conditions.condition import (
    CRITICAL,
    WARNING,
    AlertFacts,
    Condition,
    Rung,
)
from andon.explain.conditions.device_view import DeviceView
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
from andon.explain.conditions.heat.phrases import (
    COOLING_IN_ALERTS,
    advise_cooling,
    cooling,
    cooling_advice,
    hot_query,
    limits_of,
    slowed_query,
    temperature,
    throttling,
)
from andon.explain.conditions.judgement import BETWEEN, CALM, HOLDS, UNKNOWN, Judgement
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import DEVICE, PromTerms
from andon.explain.conditions.wording import bounds_of, reading, span_of, was
from andon.explain.evidence.forecast import Arrival, Trend, arrival
from andon.explain.evidence.phrasing import CERTAIN, conclude, say
from andon.explain.evidence.reasons import Reason, ReasonKind
from andon.explain.evidence.view import Explanation, View, after_colon
from andon.model.thresholds import Thresholds
from andon.model.throttling import HW_THERMAL

CLEAR_CELSIUS, CRITICAL_CLEAR_CELSIUS = 5, 3
SOON_SECONDS = 3600.0
HOT = ReasonKind("hot", "near its limits", 62, mild=35)
"""Milder: warm, but far from its own limit."""


class Heat(NamedTuple):
    """Whether heat already slows a device down, and how fast it warms."""

    throttled: bool
    trend: Trend | None


STEADY, SLOWED = Heat(False, None), Heat(True, None)  # most of the time


def judge(seen: DeviceView) -> Judgement | None:
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
        return Judgement(rungs)  # throttled by the hardware although it is cool: no number to show
    trend = seen.track.heat_trend
    about = (SLOWED if throttled else STEADY) if trend is None else Heat(throttled, trend)
    return Judgement(rungs, now, first, slowdown, about)


def sentence(facts: AlertFacts) -> str:
    found, about = facts.finding, facts.finding.about
    slowed = isinstance(about, Heat) and about.throttled
    text = f"{facts.it} is thermally throttled" if slowed else f"{facts.it} is too hot"
    text = f"{text}: {found.value or 0:.0f} °C"
    if found.limit is None:
        return f"{text} (alert above {found.threshold or 0:.0f} °C)"
    limits = f"slows down at {found.limit:.0f} °C"
    if (found.value or 0) < found.limit:
        limits = f"alert above {found.threshold or 0:.0f} °C, {limits}"
    when = _slows_down(found)
    later = "" if when is None else f", reached in {span_of(when)} at this rate"
    return f"{text} ({limits}){later}"


def evidence(found: Judgement) -> Mapping[str, float | str]:
    when = _slows_down(found)
    return {} if when is None else bounds_of("slowdown_in", when)


def _slows_down(found: Judgement) -> Arrival | None:
    """When the device reaches its slowdown temperature, if it warms steadily and that is near."""
    trend = found.about.trend if isinstance(found.about, Heat) else None
    if trend is None or found.limit is None or found.value is None or found.value >= found.limit:
        return None
    when = arrival(trend, found.limit - found.value)
    return when if when is not None and when.seconds <= SOON_SECONDS else None


def explain(view: View) -> Reason | None:
    """Explains a device near its own limit, or warm for any card; not if already throttled."""
    now, limits = view.sample.temperature_celsius, limits_of(view)
    if now is None or now < limits.shown or throttling(view):
        return None
    near = now >= limits.notify
    text = say("Hot") + after_colon(temperature(view))
    worker = view.worker()
    more = [*cooling(view), view.read("power_watts"), *view.who(worker)]
    return conclude(HOT, CERTAIN, text, more, worker, cooling_advice(view), mild=not near)


def _numbers(figures: Thresholds) -> Mapping[str, float | str]:
    return {"clear": CLEAR_CELSIUS, "critical_clear": CRITICAL_CLEAR_CELSIUS}


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
    advice=COOLING_IN_ALERTS,
    advise=advise_cooling,
    judged=OnReading(judge),
    lit_if=triggers.hot,
    rungs=(
        Rung(
            WARNING,
            "at {thermal_celsius} °C, or {thermal_margin_celsius} °C below its slowdown "
            "temperature if that is lower",
            60, "{clear} °C below that", 120, notify=False,
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
            "{critical_clear} °C below its slowdown temperature, and not throttled by the hardware",
            120,
        ),
    ),
    label="too hot",
    headline="is too hot",
    rising="getting too hot",
    sentence=sentence,
    recovered=was("too hot", "°C"),
    measure=reading("temperature_celsius"),
    evidence=evidence,
    figures=(CELSIUS, MARGIN_CELSIUS, NOTIFY_CELSIUS, CRITICAL_CELSIUS),
    numbers=_numbers,
    unit="celsius",
    weight=18,
    reasons=(Explanation(explain, (HOT,)),),
    promql=(_shown, _notified, _critical),
)  # fmt: skip
