"""How each rule judges one device that answers.

Each judge runs for every device in every sample, so a healthy device costs only comparisons: None
means that no rung holds and all are calm. Percentages are judged as they are shown, to a tenth: a
threshold counts as reached when the value rounds to it.
"""

from collections.abc import Callable

from andon.core.conditions.device_view import DeviceView
from andon.core.conditions.finding import ALL, ENDED, NEITHER, UNKNOWN, Judgement
from andon.core.conditions.forecast import arrival
from andon.core.conditions.heat import (
    HEAT_REASONS,
    PERHAPS_HEAT,
    HeatThrottling,
    heat_limits,
    heat_throttling,
    hot_from,
)
from andon.core.conditions.thresholds import (
    CLOCK_LOSS_CLEAR_PERCENT,
    CRITICAL_CLEAR_CELSIUS,
    FAN_CLEAR_CELSIUS,
    HIGH_USAGE_CLEAR_PERCENT,
    LEAK_CLEAR_SHARE,
    LEAK_CLEAR_TIMES,
    MEMORY_CLEAR_PERCENT,
    POWER_CLEAR_PERCENT,
    THERMAL_CLEAR_CELSIUS,
    UNATTRIBUTED_CLEAR_SHARE,
)
from andon.core.conditions.unattributed import owns_memory, unattributed_bytes
from andon.core.sampling.idleness import ZERO_READING
from andon.model.throttling import HW_SLOWDOWN, POWER_BRAKE, POWER_CAP

TENTH = 0.05  # half of the last digit shown
BUSY_PERCENT = 50
DESIGNED_SHARE = 0.98  # of its design power limit
SURELY_SECONDS = 600.0

NOT_SLOWED, BY_HARDWARE = HeatThrottling.NONE, HeatThrottling.HARDWARE
CAP, BRAKE, SLOWDOWN = POWER_CAP.name, POWER_BRAKE.name, HW_SLOWDOWN.name

Judge = Callable[[DeviceView], Judgement | None]


def thermal(seen: DeviceView) -> Judgement | None:
    """Shown when it is hot; people are notified near its slowdown temperature, or if throttled."""
    now, slowdown = seen.sample.temperature_celsius, seen.device.limits.slowdown_celsius
    if now is None:
        return UNKNOWN
    reasons, first = seen.reasons, hot_from(slowdown, seen.figures)
    cool = slowdown is not None and now <= first - THERMAL_CLEAR_CELSIUS
    if cool and (not reasons or HEAT_REASONS.isdisjoint(reasons)):
        return None  # most devices, most of the time
    _, notify_from, critical = heat_limits(slowdown, seen.figures)
    slowed = NOT_SLOWED
    if reasons and not PERHAPS_HEAT.isdisjoint(reasons):
        slowed = heat_throttling(reasons, now, slowdown, seen.figures)
    hardware = slowed is BY_HARDWARE
    if now <= first - THERMAL_CLEAR_CELSIUS and now <= critical - CRITICAL_CLEAR_CELSIUS:
        return None if not hardware else Judgement(0, 0b011)
    holds = 0
    if now >= first:
        notify = now >= notify_from or slowed > 0
        holds = 0b001 | notify << 1 | (now >= critical or hardware) << 2
    calm = 0b011 if now <= first - THERMAL_CLEAR_CELSIUS else 0
    if now <= critical - CRITICAL_CLEAR_CELSIUS and not hardware:
        calm |= 0b100
    return Judgement(holds, calm, now, first, slowdown, (slowed > 0, seen.track.heat_trend))


def memory(seen: DeviceView) -> Judgement | None:
    """Full by design: informational."""
    used, total = seen.sample.memory_used_bytes, seen.device.memory_total_bytes
    if used is None or not total:
        return UNKNOWN
    share, least = 100.0 * used / total + TENTH, seen.figures.memory_percent
    if share < least - MEMORY_CLEAR_PERCENT + 2 * TENTH:
        return None
    return Judgement(1, 0, share, least, total) if share >= least else NEITHER


def power(seen: DeviceView) -> Judgement | None:
    """At its limit by design: informational."""
    watts, limit = seen.sample.power_watts, seen.sample.power_limit_watts
    if watts is None or not limit:
        return UNKNOWN
    share, least = 100.0 * watts / limit + TENTH, seen.figures.power_percent
    if share < least - POWER_CLEAR_PERCENT + 2 * TENTH:
        return None
    return Judgement(1, 0, share, least, limit) if share >= least else NEITHER


def throttle_thermal(seen: DeviceView) -> Judgement | None:
    """Heat limits its clocks."""
    reasons = seen.reasons
    if not reasons:
        return None if reasons is not None else UNKNOWN
    if PERHAPS_HEAT.isdisjoint(reasons):
        return None
    now, limit = seen.sample.temperature_celsius, seen.device.limits.slowdown_celsius
    slowed = heat_throttling(reasons, now, limit, seen.figures)
    if not slowed:
        return None
    holds, calm = (0b11, 0) if slowed is BY_HARDWARE else (0b01, 0b10)
    certain = not HEAT_REASONS.isdisjoint(reasons)
    return Judgement(holds, calm, now, None, limit, (HEAT_REASONS, seen.track) if certain else ())


def throttle_power(seen: DeviceView) -> Judgement | None:
    """The power cap costs a busy device more than 20 % of its clock; 35 % at its default limit."""
    reasons, sample, highest = seen.reasons, seen.sample, seen.device.limits.sm_clock_mhz
    if reasons is None or not highest:
        return UNKNOWN
    if CAP not in reasons:
        return None
    busy = sample.utilization_percent
    if busy is not None and busy < BUSY_PERCENT:
        return None
    if sample.sm_clock_mhz is None:
        return UNKNOWN
    limit, default = sample.power_limit_watts, seen.device.limits.power_default_watts
    lowered = limit is not None and default is not None and limit < DESIGNED_SHARE * default
    figures = seen.figures
    most = figures.clock_loss_percent if lowered else figures.clock_loss_default_limit_percent
    loss = 100.0 * (1 - sample.sm_clock_mhz / highest)
    if loss <= most - CLOCK_LOSS_CLEAR_PERCENT:
        return None
    details = ((CAP,), seen.track)
    return Judgement(1, 0, loss, most, limit, details) if loss > most else NEITHER


def throttle_hardware(seen: DeviceView) -> Judgement | None:
    """The hardware throttles it: the power supply, or a cause that it does not report."""
    reasons = seen.reasons
    if not reasons:
        return None if reasons is not None else UNKNOWN
    if BRAKE in reasons:
        return Judgement(0b10, 0b01, details=((BRAKE,), seen.track))
    if SLOWDOWN not in reasons:
        return None
    now, limit = seen.sample.temperature_celsius, seen.device.limits.slowdown_celsius
    if heat_throttling(reasons, now, limit, seen.figures):
        return None
    return Judgement(0b01, 0b10, details=((SLOWDOWN,), seen.track))


def fan(seen: DeviceView) -> Judgement | None:
    """Hot, and the fan has stopped."""
    speed, now = seen.sample.fan_percent, seen.sample.temperature_celsius
    if speed is None:
        return UNKNOWN
    if speed > 0:
        return None
    if now is None:
        return UNKNOWN
    least = seen.figures.fan_celsius
    if now <= least - FAN_CLEAR_CELSIUS:
        return None
    limit = seen.device.limits.slowdown_celsius
    return Judgement(1, 0, now, least, limit) if now >= least else NEITHER


def unattributed_memory(seen: DeviceView) -> Judgement | None:
    """Memory in use by no visible process; people are notified if the device is idle."""
    total = seen.device.memory_total_bytes
    if not owns_memory(seen.device, seen.divided):
        return None
    used = seen.sample.memory_used_bytes
    if used is None or not total:
        return UNKNOWN
    calm = UNATTRIBUTED_CLEAR_SHARE * seen.figures.unattributed_percent / 100 * total
    if used <= calm:
        return None  # even all of it would not be much
    spare = seen.status.memory_unattributed_bytes
    if spare is None:
        return UNKNOWN
    if spare <= calm or not unattributed_bytes(seen.status, seen.divided):
        return None
    share = round(100.0 * spare / total, 1)
    busy = seen.sample.utilization_percent
    blind = 0b10 if busy is None else 0
    if share < seen.figures.unattributed_percent or spare < seen.figures.unattributed_bytes:
        return Judgement(0, 0b10 if busy else 0, blind=blind)
    least = max(seen.figures.unattributed_bytes, seen.figures.unattributed_percent / 100 * total)
    holds, calm = (0b11, 0) if busy == ZERO_READING else (0b01, 0b10 if busy else 0)
    return Judgement(holds, calm, spare, least, total, blind=blind)


def memory_leak(seen: DeviceView) -> Judgement | None:
    """Memory rises steadily and will be full within the configured time."""
    used, total = seen.sample.memory_used_bytes, seen.device.memory_total_bytes
    if used is None or not total:
        return UNKNOWN
    share, figures = 100.0 * used / total + TENTH, seen.figures
    if share < LEAK_CLEAR_SHARE * figures.leak_percent or seen.divided:
        return None
    found = seen.track.memory_trend
    if found is None:
        points = seen.track.memory
        short = not points or points[-1][0] - points[0][0] < SURELY_SECONDS
        return UNKNOWN if short and seen.track.unsure else None
    free = seen.sample.memory_free_bytes
    when = arrival(found, total - used if free is None else free)
    if when is None or when.seconds > LEAK_CLEAR_TIMES * figures.leak_seconds:
        return None
    holds = when.seconds <= figures.leak_seconds and share >= figures.leak_percent
    return Judgement(int(holds), 0, when.seconds, figures.leak_seconds, total, (found, when))


def high_usage(seen: DeviceView) -> Judgement | None:
    """The device is in use."""
    now, most = seen.sample.utilization_percent, seen.figures.high_usage_percent
    if now is None:
        return UNKNOWN
    if now <= most - HIGH_USAGE_CLEAR_PERCENT:
        return None
    return Judgement(1, 0, now, most) if now > most else NEITHER


def idle(seen: DeviceView) -> Judgement:
    """Held by a lease, and nothing runs on it."""
    held, now = seen.held, seen.sample.utilization_percent
    if held is None:
        return ENDED
    if now is None:
        return UNKNOWN
    if now > ZERO_READING:
        return Judgement(0, ALL)
    return Judgement(1, 0, now, seen.figures.idle_seconds, None, (held,))


DEVICE_JUDGES: tuple[tuple[str, Judge], ...] = (
    ("thermal", thermal),
    ("memory", memory),
    ("power", power),
    ("throttle_thermal", throttle_thermal),
    ("throttle_power", throttle_power),
    ("throttle_hardware", throttle_hardware),
    ("fan", fan),
    ("unattributed_memory", unattributed_memory),
    ("memory_leak", memory_leak),
    ("high_usage", high_usage),
)
"""The judges of readings by rule; `idle` runs only where leases are followed."""
