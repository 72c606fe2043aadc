"""The thresholds in force for each device, and the catalogue of rules with those thresholds."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from andon.core.conditions.rules import (
    READINGS,
    RULES,
    Precondition,
    Rule,
    Subject,
    inactive_reason,
)
from andon.model.device import Device, DeviceStatus
from andon.model.naming import device_labels, may_mean, recorded_label
from andon.units import GIB

Json = dict[str, Any]

MOST_DEVICES = 4096
RENOTIFY_SECONDS = 14_400.0


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds of the rules, and the rules that are off."""

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


FIGURES = tuple(f.name for f in fields(Thresholds) if f.name != "off")
"""The names of all thresholds."""
RULES_OF = {rule.threshold: rule.name for rule in RULES if rule.threshold is not None}
"""The rule of each threshold: setting a threshold to "off" turns its rule off."""


@dataclass(frozen=True, slots=True)
class Override:
    """Different thresholds for one device, by its name, or for every device of a model."""

    device: str | int | None = None
    model: str | None = None  # part of its name, case-insensitive
    figures: Mapping[str, float] = field(default_factory=dict)
    off: frozenset[str] = frozenset()

    def fits(self, device: Device, label: str) -> bool:
        """Whether it applies to this device; one for a board applies to its partitions."""
        if self.device is not None:
            return may_mean(str(self.device), device.uuid, label, device.pci)
        return self.model is not None and self.model.lower() in device.name.lower()


class Rulebook:
    """The thresholds in force. An override for the device beats one for its model."""

    def __init__(
        self,
        thresholds: Thresholds | None = None,
        overrides: Iterable[Override] = (),
        renotify_seconds: float = RENOTIFY_SECONDS,
    ) -> None:
        self.thresholds = thresholds or Thresholds()
        self.overrides = tuple(overrides)
        self.renotify_seconds = renotify_seconds  # 0: no reminders
        self.turns_off = bool(self.thresholds.off) or any(one.off for one in self.overrides)
        self._kept: dict[str, tuple[Device, Thresholds]] = {}
        self._labels: dict[str, str] = {}
        self._has_names = any(one.device is not None for one in self.overrides)

    def learn_labels(self, statuses: Iterable[DeviceStatus]) -> None:
        """What the devices are called: a partition's label follows from the whole list."""
        if self._has_names and (labels := device_labels(statuses)) != self._labels:
            self._labels = labels
            self._kept.clear()

    def for_device(self, device: Device) -> Thresholds:
        """The thresholds for one device; needed for every device and sample, so they are cached."""
        kept = self._kept.get(device.uuid)
        if kept is not None and kept[0] is device:
            return kept[1]
        if len(self._kept) >= MOST_DEVICES:
            self._kept.clear()
        same = kept is not None and kept[0] == device
        found = kept[1] if kept is not None and same else self._resolved(device)
        self._kept[device.uuid] = (device, found)
        return found

    def _resolved(self, device: Device) -> Thresholds:
        found = self.thresholds
        label = self._labels.get(device.uuid) or recorded_label(device)
        fitting = [override for override in self.overrides if override.fits(device, label)]
        for override in sorted(fitting, key=lambda one: one.device is not None):
            figures: dict[str, Any] = dict(override.figures)
            found = replace(found, **figures, off=found.off | override.off)
        return found


def listing(
    rulebook: Rulebook,
    devices: Iterable[Device] = (),
    awake: frozenset[Precondition] = READINGS,
) -> list[Json]:
    """Every rule, inactive ones too; `devices` holds each device's threshold, None if off."""
    known = tuple(devices)
    return [_row(rule, rulebook, known, awake) for rule in RULES]


def _row(
    rule: Rule, rulebook: Rulebook, devices: tuple[Device, ...], awake: frozenset[Precondition]
) -> Json:
    inactive = inactive_reason(rule, awake)
    off = rule.name in rulebook.thresholds.off
    reason = "off in the settings" if off and inactive is None else inactive
    return {
        "name": rule.name,
        "title": rule.title,
        "subject_kind": str(rule.subject_kind),
        "level": str(rule.level),
        "for_seconds": rule.for_seconds,
        "clear_seconds": rule.clear_seconds,
        "threshold": _figure(rule, rulebook, None),
        "unit": rule.unit,
        "why": rule.why,
        "advice": rule.advice,
        "active": reason is None,
        "inactive_reason": reason,
        "levels": [{**asdict(rung), "level": str(rung.level)} for rung in rule.rungs],
        "devices": {one.uuid: _figure(rule, rulebook, one) for one in _concerned(rule, devices)},
    }


def _concerned(rule: Rule, devices: tuple[Device, ...]) -> tuple[Device, ...]:
    return devices if rule.subject_kind is Subject.DEVICE and rule.threshold is not None else ()


def _figure(rule: Rule, rulebook: Rulebook, device: Device | None) -> float | None:
    figures = rulebook.thresholds if device is None else rulebook.for_device(device)
    if rule.threshold is None or rule.name in figures.off:
        return None
    found: float = getattr(figures, rule.threshold)
    return found
