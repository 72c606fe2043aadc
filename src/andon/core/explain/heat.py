"""Explains heat, and why the fan runs or does not."""

from andon.core.conditions.heat import (
    HEAT_REASONS,
    HeatLimits,
    HeatThrottling,
    heat_limits,
    heat_throttling,
)
from andon.core.explain.measures import (
    clock_loss_percent,
    measured,
    slowdown_margin_celsius,
    temperature_fall_celsius,
    utilization_max_percent,
)
from andon.core.explain.phrasing import CERTAIN, LIKELY, POSSIBLE, Clause, conclude, say
from andon.core.explain.reasons import Evidence, Reason, ReasonCode
from andon.core.explain.view import View, after_colon
from andon.core.sampling.idleness import BARELY_BUSY_PERCENT

COOL_MARGIN_CELSIUS = 15
HOT_MEMORY_CELSIUS = 95  # the limit of stacked memory; graphics memory tolerates more
VERY_HOT_MEMORY_CELSIUS = 105
COOL_CELSIUS = 50
FAN_RUNS_PERCENT = 25
FAN_LOUD_PERCENT = 36  # some cards idle at a third
FAN_LOAD_PERCENT = 30
FAN_ASKED_PERCENT = 70  # loud enough that people ask

COOLING = (
    "Check the cooling: dust, blocked slots, cables in the airflow, a warm room or a neighbouring "
    "card. Until then, a lower power limit keeps it cooler."
)


def heat(view: View) -> Reason | None:
    """Thermally throttled now, according to the driver."""
    if not throttling(view) or _memory_is_the_cause(view):
        return None
    loss = measured(view, clock_loss_percent) if (clock_loss_percent(view) or 0) >= 1 else None
    slower = say("clock {loss} below maximum", loss=loss)
    sentence = say("Thermal throttling") + after_colon(_temperature(view), slower)
    hardware = throttling(view) is HeatThrottling.HARDWARE
    confidence = CERTAIN if view.held_back_by(*HEAT_REASONS) else LIKELY
    worker = view.worker()
    more = [view.read("throttle"), *_clocks(view), *_cooling(view), *view.who(worker)]
    return conclude(ReasonCode.HEAT, confidence, sentence, more, worker, COOLING, mild=not hardware)


def hot(view: View) -> Reason | None:
    """Near its own limit, or warm for any card; not if already throttled."""
    now, limits = view.sample.temperature_celsius, _limits(view)
    if now is None or now < limits.shown or throttling(view):
        return None
    near = now >= limits.notify
    sentence = say("Hot") + after_colon(_temperature(view))
    worker = view.worker()
    more = [*_cooling(view), view.read("power_watts"), *view.who(worker)]
    return conclude(ReasonCode.HOT, CERTAIN, sentence, more, worker, COOLING, mild=not near)


def memory_heat(view: View) -> Reason | None:
    """The memory is hotter than the chip; the vendor does not publish its limit."""
    if not view.at_least("memory_temperature_celsius", HOT_MEMORY_CELSIUS):
        return None
    costs = throttling(view) is not HeatThrottling.NONE
    very_hot = view.at_least("memory_temperature_celsius", VERY_HOT_MEMORY_CELSIUS)
    hot_memory = view.read("memory_temperature_celsius")
    sentence = say("Throttled by hot memory: {m}" if costs else "Hot memory: {m}", m=hot_memory)
    sentence = sentence + say(", while the chip is at {t}", t=view.read("temperature_celsius"))
    confidence = LIKELY if costs or very_hot else POSSIBLE
    names, worker = ("memory_utilization_percent", "throttle"), view.worker()
    cost = [measured(view, clock_loss_percent), *_clocks(view)] if costs else []
    more = [*(view.read(name) for name in names), *cost, *view.who(worker)]
    advice = "Check the cooling of the memory: pads, back plate, airflow over the back of the card."
    return conclude(
        ReasonCode.MEMORY_HEAT, confidence, sentence, more, worker, advice, mild=not costs
    )


def fan(view: View) -> Reason | None:
    """The fan runs because of heat or load, now or a moment ago."""
    if not view.at_least("fan_percent", FAN_RUNS_PERCENT) or fan_idle(view):
        return None
    sentence = say("Fan at {f}:", f=view.read("fan_percent"))
    because = _fan_cause(view)
    if not because:
        return None
    worker = view.worker()
    more = [view.read("utilization_percent"), view.read("power_watts"), *view.who(worker)]
    advice = "Nothing to do: this is normal. Less load or a lower power limit makes it quieter."
    mild = not view.at_least("fan_percent", FAN_ASKED_PERCENT)
    sentence = sentence + Clause(" ") + because
    return conclude(ReasonCode.FAN, LIKELY, sentence, more, worker, advice, mild=mild)


def fan_idle(view: View) -> Reason | None:
    """The fan runs although the device is idle and cool, and has been throughout."""
    cool = view.at_most("temperature_celsius", COOL_CELSIUS - 1)
    if not (view.at_least("fan_percent", FAN_LOUD_PERCENT) and view.idle and cool):
        return None
    if _cools_down(view):
        return None
    sentence = say(
        "Fan at {f} although the GPU is idle ({u}) and cool ({t})",
        f=view.read("fan_percent"),
        u=view.read("utilization_percent"),
        t=view.read("temperature_celsius"),
    )
    confidence = LIKELY if len(view.past) > 1 else POSSIBLE
    advice = "Check for a fan speed set by hand in the driver settings or the firmware."
    return conclude(
        ReasonCode.FAN_IDLE, confidence, sentence, [view.read("power_watts")], advice=advice
    )


def fan_failed(view: View) -> Reason | None:
    """Hot, and the fan has stopped."""
    hot_enough = view.at_least("temperature_celsius", view.figures.fan_celsius)
    if not (hot_enough and view.at_most("fan_percent", 0)):
        return None
    sentence = say(
        "Fan stopped ({f}) although the GPU is at {t}",
        f=view.read("fan_percent"),
        t=view.read("temperature_celsius"),
    )
    confidence = CERTAIN if view.at_least("temperature_celsius", _limits(view).shown) else LIKELY
    advice = "Stop the work on it, then check the fan: its cable, a blocked blade, its bearing."
    more = [view.limit("slowdown_celsius"), view.read("throttle")]
    return conclude(ReasonCode.FAN_FAILED, confidence, sentence, more, advice=advice)


def throttling(view: View) -> HeatThrottling:
    """Whether heat slows it down now."""
    sample, slowdown = view.sample, view.status.device.limits.slowdown_celsius
    celsius = sample.temperature_celsius
    return heat_throttling(sample.throttle or (), celsius, slowdown, view.figures)


def _limits(view: View) -> HeatLimits:
    return heat_limits(view.status.device.limits.slowdown_celsius, view.figures)


def _memory_is_the_cause(view: View) -> bool:
    """Hot memory, while the chip is far from its own limit."""
    margin = slowdown_margin_celsius(view)
    cool = margin is not None and margin > COOL_MARGIN_CELSIUS
    return cool and view.at_least("memory_temperature_celsius", HOT_MEMORY_CELSIUS)


def _temperature(view: View) -> Clause:
    now, slowdown = view.read("temperature_celsius"), view.limit("slowdown_celsius")
    both = say("{t} (limit {s})", t=now, s=slowdown)
    return both or say("{t}", t=now)


def _fan_cause(view: View) -> Clause:
    if view.at_least("temperature_celsius", COOL_CELSIUS):
        return say("the GPU is at {t}", t=view.read("temperature_celsius")) + say(
            " and {u} busy", u=view.read("utilization_percent") if view.works else None
        )
    if view.at_least("utilization_percent", FAN_LOAD_PERCENT):
        return say("the GPU is {u} busy", u=view.read("utilization_percent"))
    if _cools_down(view):
        most = measured(view, utilization_max_percent)
        return say("the GPU is cooling down after work ({u} in the last minute)", u=most)
    return Clause()


def _cools_down(view: View) -> bool:
    fell, most = temperature_fall_celsius(view), utilization_max_percent(view)
    return (fell is not None and fell >= 3) or (most is not None and most > BARELY_BUSY_PERCENT)


def _clocks(view: View) -> list[Evidence | None]:
    return [view.read("sm_clock_mhz"), view.limit("sm_clock_mhz")]


def _cooling(view: View) -> list[Evidence | None]:
    return [view.read("fan_percent"), view.read("memory_temperature_celsius")]
