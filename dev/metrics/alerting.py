"""The catalogue of alert rules as PromQL: one alert for each rung that PromQL can express.

`for` is the time for which a rung must hold, `keep_firing_for` the time for which it must be clear.
The query reads `ALERTS` for the clear value: an alert continues until its value has left the band.
"""

from collections.abc import Callable
from dataclasses import dataclass

from andon.core.conditions import thresholds as margins
from andon.core.conditions.heat import HEAT_REASONS
from andon.core.conditions.judges import BUSY_PERCENT, DESIGNED_SHARE
from andon.core.conditions.rules import RULES, Rule, Rung
from andon.core.conditions.stated import stated
from andon.core.conditions.thresholds import DEFAULTS, Thresholds
from andon.core.conditions.unattributed import CONTEXT_BYTES
from andon.core.sampling.idleness import ZERO_READING
from andon.exporter.catalogue import ALL
from andon.model.throttling import (
    HW_SLOWDOWN,
    HW_THERMAL,
    POWER_BRAKE,
    POWER_CAP,
    TEMPERATURE_LIMIT,
)

NAMES = frozenset(row.name for row in ALL)
DEVICE = "instance, job, device, uuid"
GPU = "GPU {{ $labels.device }} on {{ $labels.instance }}"
NODE = "{{ $labels.instance }}"
HALF = 0.05  # of the last digit that is shown
CLEAR = margins.THERMAL_CLEAR_CELSIUS


@dataclass(frozen=True, slots=True)
class Alert:
    """A condition, how long it must hold, and what a person should know and do."""

    name: str
    query: str
    held: str
    severity: str
    summary: str
    action: str
    rule: str = ""
    level: str = ""
    kept: str = ""


@dataclass(frozen=True, slots=True)
class Terms:
    """The words of PromQL that the rungs are made of."""

    prefix: str
    figures: Thresholds

    def m(self, name: str) -> str:
        """The full name of a metric; a misspelt one raises KeyError."""
        if name not in NAMES:
            raise KeyError(name)
        return f"{self.prefix}_{name}"

    def percent(self, part: str, whole: str) -> str:
        return f"100 * {self.m(part)} / {self.m(whole)}"

    def reason(self, *reasons: str) -> str:
        """Whether one of these held the clocks down within the last five seconds.

        Where scrapes are further apart than that, the latest one counts.
        """
        series = f'{self.m("gpu_throttle")}{{reason=~"{"|".join(sorted(reasons))}"}}'
        return f"(max by ({DEVICE}) (max_over_time({series}[5s]) or {series}) == 1)"

    def state(self, name: str) -> str:
        return f'max by ({DEVICE}) ({self.m("gpu_state")}{{state="{name}"}}) == 1'


Query = Callable[[Terms, str], str]
"""The query of a rung; the second argument selects the alert itself while it fires."""


def _above(value: Callable[[Terms], str], least: Callable[[Terms], float], clear: float,
           strictly: bool = False) -> Query:  # fmt: skip
    def query(t: Terms, fires: str) -> str:
        sign = ">" if strictly else ">="
        start, end = least(t), least(t) - clear
        if not strictly:
            start -= HALF
        return f"{value(t)} {sign} {start:g} or ({value(t)} > {end + HALF:g} and {fires})"

    return query


def _thermal(t: Terms) -> tuple[str, str, str]:
    """The temperature, and the limits of each device: shown and critical."""
    slowdown, temp = t.m("gpu_slowdown_temperature_celsius"), t.m("gpu_temperature_celsius")
    first = (
        f"(clamp_max({slowdown} - {t.figures.thermal_margin_celsius:g}, "
        f"{t.figures.thermal_celsius:g}) or {temp} * 0 + {t.figures.thermal_celsius:g})"
    )
    critical = f"({slowdown} or {temp} * 0 + {t.figures.thermal_critical_celsius:g})"
    return temp, first, critical  # fmt: skip


def _thermal_shown(t: Terms, fires: str) -> str:
    temp, first, _ = _thermal(t)
    return f"{temp} >= {first} or ({temp} > {first} - {CLEAR} and {fires})"


def _thermal_notified(t: Terms, fires: str) -> str:
    temp, first, _ = _thermal(t)
    slowdown = t.m("gpu_slowdown_temperature_celsius")
    near = (
        f"({slowdown} - {t.figures.thermal_margin_celsius:g} or "
        f"{temp} * 0 + {t.figures.thermal_notify_celsius:g})"
    )
    hot = f"({temp} >= {near} or {temp} and on ({DEVICE}) ({_slowed(t)}))"
    return f"({hot} and {temp} >= {first}) or ({temp} > {first} - {CLEAR} and {fires})"


def _thermal_critical(t: Terms, fires: str) -> str:
    temp, first, critical = _thermal(t)
    hardware = t.reason(HW_THERMAL.name)
    hot = f"({temp} >= {critical} or {temp} and on ({DEVICE}) {hardware})"
    near = f"{critical} - {margins.CRITICAL_CLEAR_CELSIUS}"
    lasts = f"({temp} > {near} or {temp} and on ({DEVICE}) {hardware})"
    return f"({hot} and {temp} >= {first}) or ({lasts} and {fires})"


def _slowed_by_hardware(t: Terms) -> str:
    """As `heat_throttling`: also where old drivers give no reason, at the slowdown temperature."""
    temp = t.m("gpu_temperature_celsius")
    hot = f"{temp} >= {t.m('gpu_slowdown_temperature_celsius')}"
    unexplained = f"{t.reason(HW_SLOWDOWN.name)} unless {t.reason(POWER_BRAKE.name)}"
    return f"{t.reason(HW_THERMAL.name)} or (({unexplained}) and on ({DEVICE}) {hot})"


def _slowed(t: Terms) -> str:
    """As `heat_throttling`: AMD's temperature limit counts where the device is hot."""
    temp, first, _ = _thermal(t)
    limited = f"{t.reason(TEMPERATURE_LIMIT.name)} and on ({DEVICE}) {temp} >= {first}"
    return f"{t.reason(*HEAT_REASONS)} or {_slowed_by_hardware(t)} or ({limited})"


def _throttle_power(t: Terms, fires: str) -> str:
    clock, highest = t.m("gpu_sm_clock_hertz"), t.m("gpu_sm_clock_limit_hertz")
    limit, default = t.m("gpu_power_limit_watts"), t.m("gpu_power_default_limit_watts")
    loss = f"100 * (1 - {clock} / {highest})"
    lowered, designed = t.figures.clock_loss_percent, t.figures.clock_loss_default_limit_percent
    bound = (
        f"({lowered:g} + {designed - lowered:g}"
        f" * ({limit} >= bool {DESIGNED_SHARE:g} * {default})"
        f" or {clock} * 0 + {designed:g})"
    )
    unused = f"{t.m('gpu_utilization_percent')} < {BUSY_PERCENT}"
    capped = f"and on ({DEVICE}) {t.reason(POWER_CAP.name)} unless {unused}"
    near = f"{bound} - {margins.CLOCK_LOSS_CLEAR_PERCENT}"
    return f"({loss} > {bound} or ({loss} > {near} and {fires})) {capped}"


def _hardware(t: Terms, fires: str) -> str:
    other = f"({_slowed(t)} or {t.reason(POWER_BRAKE.name)})"
    return f"{t.reason(HW_SLOWDOWN.name)} unless on ({DEVICE}) {other}"


def _fan(t: Terms, fires: str) -> str:
    temp, least = t.m("gpu_temperature_celsius"), t.figures.fan_celsius
    warm = f"({temp} >= {least:g} or ({temp} > {least - margins.FAN_CLEAR_CELSIUS:g} and {fires}))"
    return f"{warm} and {t.m('gpu_fan_ratio')} == 0"


def _unattributed(t: Terms, fires: str) -> str:
    spare, least = t.m("gpu_memory_unattributed_bytes"), t.figures.unattributed_percent
    share = f"100 * {spare} / {t.m('gpu_memory_total_bytes')}"
    large = f"{share} >= {least - HALF:g} and {spare} >= {t.figures.unattributed_bytes:g}"
    counted = f"sum by ({DEVICE}) ({t.m('gpu_processes')})"
    overhead = f"{spare} <= on ({DEVICE}) {CONTEXT_BYTES} * {counted}"
    near = f"{share} > {margins.UNATTRIBUTED_CLEAR_SHARE * least:g} and {fires}"
    return f"({large} or ({near})) unless on ({DEVICE}) {overhead}"


def _unattributed_idle(t: Terms, fires: str) -> str:
    return f"({_unattributed(t, fires)}) and {t.m('gpu_utilization_percent')} == {ZERO_READING}"


def _disk(above: float, free: float, clear_free: float) -> Query:
    def query(t: Terms, fires: str) -> str:
        percent = t.figures.node_disk_percent + above
        clear = percent - margins.DISK_CLEAR_PERCENT
        used, total = t.m("node_disk_used_bytes"), t.m("node_disk_total_bytes")
        share, left = f"100 * {used} / {total}", f"{total} - {used}"
        full = f"{share} >= {percent - HALF:g} and {left} < {free:g} * 2^30"
        near = f"{share} >= {clear - HALF:g} and {left} < {clear_free:g} * 2^30"
        mine = fires.replace(DEVICE, "instance, job, mount")
        return (
            f"(({full}) or ({near} and {mine})) and {total} >= {margins.SMALLEST_DISK_GIB} * 2^30"
        )

    return query


def _memory(t: Terms) -> str:
    return t.percent("gpu_memory_used_bytes", "gpu_memory_total_bytes")


def _power(t: Terms) -> str:
    return t.percent("gpu_power_watts", "gpu_power_limit_watts")


def _busy(t: Terms) -> str:
    return t.m("gpu_utilization_percent")


def _cpu(t: Terms) -> str:
    return f"100 * {t.m('node_cpu_ratio')}"


def _node_memory(t: Terms) -> str:
    return t.percent("node_memory_used_bytes", "node_memory_total_bytes")


def _ecc(t: Terms, fires: str) -> str:
    return f"increase({t.m('gpu_ecc_uncorrected_errors_total')}[24h]) > 0"


QUERIES: dict[str, tuple[Query | None, ...]] = {
    "thermal": (_thermal_shown, _thermal_notified, _thermal_critical),
    "memory": (_above(_memory, lambda t: t.figures.memory_percent, margins.MEMORY_CLEAR_PERCENT),),
    "power": (_above(_power, lambda t: t.figures.power_percent, margins.POWER_CLEAR_PERCENT),),
    "throttle_thermal": (
        lambda t, fires: _slowed(t), lambda t, fires: _slowed_by_hardware(t),
    ),
    "throttle_power": (_throttle_power,),
    "throttle_hardware": (
        _hardware, lambda t, fires: t.reason(POWER_BRAKE.name),
    ),
    "device_lost": (lambda t, fires: t.state("lost"),),
    "driver_hung": (lambda t, fires: t.state("stale"), lambda t, fires: t.state("stale")),
    "ecc": (None, _ecc),
    "fan": (_fan,),
    "unattributed_memory": (_unattributed, _unattributed_idle),
    "high_usage": (
        _above(_busy, lambda t: t.figures.high_usage_percent, margins.HIGH_USAGE_CLEAR_PERCENT,
               strictly=True),
    ),
    "node_cpu": (_above(_cpu, lambda t: t.figures.node_cpu_percent, margins.CPU_CLEAR_PERCENT),),
    "node_memory": (
        _above(_node_memory, lambda t: t.figures.node_memory_percent,
               margins.NODE_MEMORY_CLEAR_PERCENT),
        _above(_node_memory,
               lambda t: t.figures.node_memory_percent + margins.NODE_MEMORY_CRITICAL_PERCENT,
               margins.NODE_MEMORY_CRITICAL_CLEAR_PERCENT),
    ),
    "node_disk": (
        _disk(0, margins.DISK_FREE_GIB, margins.DISK_CLEAR_FREE_GIB),
        _disk(margins.DISK_CRITICAL_PERCENT, margins.DISK_CRITICAL_FREE_GIB,
              margins.DISK_CRITICAL_CLEAR_FREE_GIB),
    ),
}  # fmt: skip

UNSAID = {
    "xid": "an event is not a metric: andon reports it itself",
    "memory_leak": "a robust trend with its uncertainty cannot be expressed in PromQL",
    "idle": "who holds a device is not a metric yet",
    "squatter": "who holds a device is not a metric yet",
    "idle_lease": "who holds a device is not a metric yet",
    "orphan": "who holds a device is not a metric yet",
    "leftover_memory": "which leases ended is not a metric",
    "store": "andon reports its own problems; AndonSnapshotOld fires when it does not run",
    "sampler": "andon reports its own problems; AndonSnapshotOld fires when it does not run",
    "notifier": "andon reports its own problems",
}
"""Why a rule of the catalogue is not in the file."""

DIFFERENCES = (
    "Prometheus counts all time between two scrapes; andon counts at most half a minute of it",
    "a series that ends resolves its alert; in andon missing data is not recovery",
    "alerts do not inhibit each other: use inhibit_rules of Alertmanager",
    "a flapping alert does not clear more slowly",
    "if all devices of a vendor hang, there is an alert for each device; andon raises one",
)


def unsaid(rule: Rule) -> str | None:
    """Why a rule is not in the file; None where it is."""
    return None if rule.name in QUERIES else UNSAID[rule.name]


def alerts(prefix: str = "andon") -> tuple[Alert, ...]:
    """The rungs of the catalogue, in its order."""
    return tuple(
        _alert(rule, place, rung, query, prefix)
        for rule in (stated(one, DEFAULTS) for one in RULES)
        for place, (rung, query) in enumerate(
            zip(rule.rungs, QUERIES.get(rule.name, (None,) * len(rule.rungs)), strict=True)
        )
        if query is not None
    )


def _alert(rule: Rule, place: int, rung: Rung, query: Query, prefix: str) -> Alert:
    name = "Andon" + "".join(word.capitalize() for word in rule.name.split("_"))
    several = len([q for q in QUERIES[rule.name] if q is not None]) > 1
    if several:
        name += str(rung.level).capitalize() if rung.notify else "Shown"
    where = NODE if rule.name.startswith("node_") else GPU
    by = "instance, job" if rule.name.startswith("node_") else DEVICE
    fires = f'on ({by}) ALERTS{{alertname="{name}", alertstate="firing"}}'
    return Alert(
        name,
        query(Terms(prefix, DEFAULTS), fires),
        seconds(rung.for_seconds),
        str(rung.level) if rung.notify else "info",
        f"{where}: {rule.title.lower()} ({rung.condition})",
        rule.advice,
        rule.name,
        str(rung.level),
        "" if rule.momentary else seconds(rung.clear_seconds),
    )


def seconds(value: float) -> str:
    return f"{value:g}s"
