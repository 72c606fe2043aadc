"""The rules as people read them: their texts with the thresholds that are in force."""

from collections.abc import Mapping
from dataclasses import replace

from andon.core.conditions import thresholds as margins
from andon.core.conditions.rules import Rule, Rung
from andon.core.conditions.thresholds import FIGURES, Thresholds
from andon.units import GIB, human_seconds


def stated(rule: Rule, figures: Thresholds) -> Rule:
    """The rule with numbers in place of the names in its texts, and its durations."""
    numbers = _numbers(figures)
    rungs = tuple(_rung(rung, figures, numbers) for rung in rule.rungs)
    return replace(rule, why=rule.why.format_map(numbers), rungs=rungs)


def _rung(rung: Rung, figures: Thresholds, numbers: Mapping[str, str]) -> Rung:
    return replace(
        rung,
        condition=rung.condition.format_map(numbers),
        clear_condition=rung.clear_condition.format_map(numbers),
        for_seconds=for_seconds(rung, figures),
    )


def for_seconds(rung: Rung, figures: Thresholds) -> float:
    """How long a rung must hold; for some it is a threshold."""
    if rung.for_figure is None:
        return rung.for_seconds
    found: float = getattr(figures, rung.for_figure)
    return found


def _numbers(figures: Thresholds) -> Mapping[str, str]:
    plain = {name: getattr(figures, name) for name in FIGURES} | _derived(figures)
    leak = figures.leak_seconds
    return {name: f"{value:g}" for name, value in plain.items()} | {
        "leak_time": _time(leak),
        "leak_clear_time": _time(margins.LEAK_CLEAR_TIMES * leak),
    }


def _derived(f: Thresholds) -> dict[str, float]:
    """Values that follow from a threshold: where an alert ends, and where it gets worse."""
    memory, disk = f.node_memory_percent, f.node_disk_percent
    worse_memory = memory + margins.NODE_MEMORY_CRITICAL_PERCENT
    worse_disk = disk + margins.DISK_CRITICAL_PERCENT
    return {
        "thermal_clear": margins.THERMAL_CLEAR_CELSIUS,
        "thermal_critical_clear": margins.CRITICAL_CLEAR_CELSIUS,
        "memory_clear": f.memory_percent - margins.MEMORY_CLEAR_PERCENT,
        "power_clear": f.power_percent - margins.POWER_CLEAR_PERCENT,
        "clock_loss_clear": margins.CLOCK_LOSS_CLEAR_PERCENT,
        "fan_clear": f.fan_celsius - margins.FAN_CLEAR_CELSIUS,
        "unattributed_gib": f.unattributed_bytes / GIB,
        "unattributed_clear": f.unattributed_percent * margins.UNATTRIBUTED_CLEAR_SHARE,
        "leak_clear": f.leak_percent * margins.LEAK_CLEAR_SHARE,
        "high_usage_clear": f.high_usage_percent - margins.HIGH_USAGE_CLEAR_PERCENT,
        "node_cpu_clear": f.node_cpu_percent - margins.CPU_CLEAR_PERCENT,
        "node_memory_clear": memory - margins.NODE_MEMORY_CLEAR_PERCENT,
        "node_memory_critical": worse_memory,
        "node_memory_critical_clear": worse_memory - margins.NODE_MEMORY_CRITICAL_CLEAR_PERCENT,
        "disk_least_gib": margins.SMALLEST_DISK_GIB,
        "disk_free_gib": margins.DISK_FREE_GIB,
        "disk_clear": disk - margins.DISK_CLEAR_PERCENT,
        "disk_clear_free_gib": margins.DISK_CLEAR_FREE_GIB,
        "disk_critical": worse_disk,
        "disk_critical_free_gib": margins.DISK_CRITICAL_FREE_GIB,
        "disk_critical_clear": worse_disk - margins.DISK_CLEAR_PERCENT,
        "disk_critical_clear_free_gib": margins.DISK_CRITICAL_CLEAR_FREE_GIB,
    }


def _time(seconds: float) -> str:
    return human_seconds(seconds).replace(" h 0 min", " h")
