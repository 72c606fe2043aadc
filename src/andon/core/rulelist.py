"""The catalogue of rules as people and programs read it, with the figures in force."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from andon.core.rulebook import Rulebook
from andon.core.rules import READINGS, RULES, About, Need, Rule, asleep_reason
from andon.model.device import Device

Json = dict[str, Any]


def listing(
    rulebook: Rulebook,
    devices: Iterable[Device] = (),
    awake: frozenset[Need] = READINGS,
) -> list[Json]:
    """Every rule, asleep ones too; `devices` says what counts for each, None where it is off."""
    known = tuple(devices)
    return [_row(rule, rulebook, known, awake) for rule in RULES]


def _row(
    rule: Rule, rulebook: Rulebook, devices: tuple[Device, ...], awake: frozenset[Need]
) -> Json:
    asleep = asleep_reason(rule, awake)
    off = rule.name in rulebook.thresholds.off
    reason = "it is off in the settings" if off and asleep is None else asleep
    return {
        "name": rule.name,
        "title": rule.title,
        "about": str(rule.about),
        "level": str(rule.level),
        "for_seconds": rule.for_seconds,
        "clear_seconds": rule.clear_seconds,
        "threshold": _figure(rule, rulebook, None),
        "unit": rule.unit,
        "why": rule.why,
        "advice": rule.advice,
        "awake": reason is None,
        "asleep_reason": reason,
        "levels": [{**asdict(rung), "level": str(rung.level)} for rung in rule.rungs],
        "devices": {one.uuid: _figure(rule, rulebook, one) for one in _concerned(rule, devices)},
    }


def _concerned(rule: Rule, devices: tuple[Device, ...]) -> tuple[Device, ...]:
    return devices if rule.about is About.DEVICE and rule.threshold is not None else ()


def _figure(rule: Rule, rulebook: Rulebook, device: Device | None) -> float | None:
    figures = rulebook.thresholds if device is None else rulebook.for_device(device)
    if rule.threshold is None or rule.name in figures.off:
        return None
    found: float = getattr(figures, rule.threshold)
    return found
