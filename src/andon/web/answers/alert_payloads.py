"""Payloads about alerts: the board, the rules, and alerts without command lines."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace

from andon.core.conditions.lamps import LampBoard
from andon.core.conditions.rulebook import Rulebook
from andon.core.conditions.rules import (
    READINGS,
    RULES,
    Precondition,
    Rule,
    Subject,
    inactive_reason,
)
from andon.core.conditions.stated import stated
from andon.core.conditions.thresholds import Thresholds
from andon.core.sharing.holders import Holder
from andon.model.alert import Alert
from andon.model.device import Device
from andon.model.wire import Json

BOARD_SCHEMA, RULES_SCHEMA = "andon.board/1", "andon.rules/1"


def for_anonymous(alert: Alert) -> Alert:
    """Without command lines: callers without the token see only program names."""
    if all(party.command is None for party in alert.affected):
        return alert
    return replace(alert, affected=tuple(replace(party, command=None) for party in alert.affected))


def board_to_json(
    board: LampBoard,
    node: str,
    holders: Mapping[str, Sequence[Holder]] | None = None,
    holders_note: str | None = None,
) -> Json:
    """The lamp and the lease holders of every device."""
    return {
        "schema": BOARD_SCHEMA,
        "node": node,
        "at": board.at,
        "simulated": board.simulated,
        "headline": board.headline,
        "lamp": str(board.lamp),
        "devices": [
            {
                "uuid": one.uuid,
                "index": one.index,
                "lamp": str(one.lamp),
                "status": one.status,
                "reason": one.reason,
                "affected_user": one.affected_user,
                "alerts": list(one.alerts),
            }
            for one in board.devices
        ],
        "holders": {
            uuid: [{**asdict(one), "state": str(one.state)} for one in on]
            for uuid, on in (holders or {}).items()
        },
        "holders_note": holders_note,
    }


def rules_to_json(
    rulebook: Rulebook, devices: Sequence[Device], awake: frozenset[Precondition] = READINGS
) -> Json:
    """All rules, with the thresholds in effect here."""
    return {
        "schema": RULES_SCHEMA,
        "rules": [
            _rule_to_json(stated(rule, rulebook.thresholds), rulebook, devices, awake)
            for rule in RULES
        ],
    }


def _rule_to_json(
    rule: Rule, rulebook: Rulebook, devices: Sequence[Device], awake: frozenset[Precondition]
) -> Json:
    reason = inactive_reason(rule, awake) or (
        "disabled in the settings" if rule.name in rulebook.thresholds.off else None
    )
    return {
        "name": rule.name,
        "title": rule.title,
        "subject_kind": str(rule.subject_kind),
        "level": str(rule.level),
        "for_seconds": rule.for_seconds,
        "clear_seconds": rule.clear_seconds,
        "threshold": _figure(rule, rulebook.thresholds),
        "unit": rule.unit if rule.threshold is None else rule.threshold.rpartition("_")[2],
        "why": rule.why,
        "advice": rule.advice,
        "active": reason is None,
        "inactive_reason": reason,
        "levels": [
            {
                "level": str(rung.level),
                "condition": rung.condition,
                "for_seconds": rung.for_seconds,
                "clear_condition": rung.clear_condition,
                "clear_seconds": rung.clear_seconds,
                "notify": rung.notify,
            }
            for rung in rule.rungs
        ],
        "devices": [_on_device(rule, device, rulebook) for device in _judged(rule, devices)],
    }


def _judged(rule: Rule, devices: Iterable[Device]) -> Iterable[Device]:
    """The devices whose readings are compared with a threshold."""
    return devices if rule.subject_kind is Subject.DEVICE and rule.threshold is not None else ()


def _on_device(rule: Rule, device: Device, rulebook: Rulebook) -> Json:
    figures = rulebook.for_device(device)
    return {
        "uuid": device.uuid,
        "index": device.index,
        "threshold": _figure(rule, figures),
        "limit": device.limits.slowdown_celsius if rule.name == "thermal" else None,
        "disabled": rule.name in figures.off,
    }


def _figure(rule: Rule, figures: Thresholds) -> float | None:
    found: float | None = None if rule.threshold is None else getattr(figures, rule.threshold)
    return found
