"""The thresholds of the rules, and how far a reading must fall for an alert to end."""

from dataclasses import dataclass, fields

from andon.units import GIB


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds of the rules, and the rules that are off. The defaults are here only."""

    thermal_celsius: float = 80.0
    thermal_margin_celsius: float = 5.0  # below the device's slowdown temperature
    thermal_notify_celsius: float = 90.0  # for a device without one
    thermal_critical_celsius: float = 95.0
    memory_percent: float = 90.0
    power_percent: float = 95.0
    idle_seconds: float = 300.0
    high_usage_percent: float = 50.0
    clock_loss_percent: float = 20.0
    clock_loss_default_limit_percent: float = 35.0  # at the device's default power limit
    fan_celsius: float = 70.0
    unattributed_percent: float = 10.0
    unattributed_bytes: float = float(GIB)
    leak_seconds: float = 3600.0
    leak_percent: float = 50.0
    node_cpu_percent: float = 95.0
    node_memory_percent: float = 95.0
    node_disk_percent: float = 90.0
    squatter_seconds: float = 60.0
    idle_lease_seconds: float = 1800.0
    orphan_seconds: float = 60.0
    leftover_memory_seconds: float = 60.0
    off: frozenset[str] = frozenset()


DEFAULTS = Thresholds()
FIGURES = tuple(f.name for f in fields(Thresholds) if f.name != "off")
"""The names of all thresholds."""

# How far below its threshold a reading must be for an alert to end.
THERMAL_CLEAR_CELSIUS = 5
CRITICAL_CLEAR_CELSIUS = 3
MEMORY_CLEAR_PERCENT = 3
POWER_CLEAR_PERCENT = 5
CLOCK_LOSS_CLEAR_PERCENT = 5
FAN_CLEAR_CELSIUS = 10
UNATTRIBUTED_CLEAR_SHARE = 0.5
HIGH_USAGE_CLEAR_PERCENT = 10
LEAK_CLEAR_SHARE = 0.9
LEAK_CLEAR_TIMES = 2.0
CPU_CLEAR_PERCENT = 5
NODE_MEMORY_CLEAR_PERCENT = 3

# The second level of the node's rules, above the first.
NODE_MEMORY_CRITICAL_PERCENT = 3
NODE_MEMORY_CRITICAL_CLEAR_PERCENT = 2
DISK_CRITICAL_PERCENT = 7
DISK_CLEAR_PERCENT = 2
DISK_FREE_GIB, DISK_CLEAR_FREE_GIB = 100, 120
DISK_CRITICAL_FREE_GIB, DISK_CRITICAL_CLEAR_FREE_GIB = 20, 30
SMALLEST_DISK_GIB = 8
