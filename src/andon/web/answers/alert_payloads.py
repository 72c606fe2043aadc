"""Payloads about alerts: the board, the rules, and alerts without command lines."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace

from andon.core.conditions.lamps import LampBoard
from andon.core.conditions.rulebook import Rulebook, Thresholds
from andon.core.conditions.rules import (
    READINGS,
    RULES,
    Precondition,
    Rule,
    Subject,
    inactive_reason,
)
from andon.core.sharing.holders import Holder
from andon.model.alert import Alert
from andon.model.device import Device, DeviceStatus
from andon.model.naming import device_labels
from andon.model.verdict import DeviceVerdict, verdict_to_json
from andon.model.wire import Json

BOARD_SCHEMA, RULES_SCHEMA = "andon.board/1", "andon.rules/1"

Labelled = tuple[Device, str]
"""A device and what it is called."""


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
    verdicts: Iterable[DeviceVerdict] = (),
) -> Json:
    """The lamp, the lease holders and the availability of every device."""
    available = {one.uuid: verdict_to_json(one) for one in verdicts}
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
                "verdict": available.get(one.uuid),
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
    rulebook: Rulebook, statuses: Sequence[DeviceStatus], awake: frozenset[Precondition] = READINGS
) -> Json:
    """All rules, with the thresholds in effect here."""
    rulebook.learn_labels(statuses)
    labels = device_labels(statuses)
    devices = [(status.device, labels[status.device.uuid]) for status in statuses]
    return {
        "schema": RULES_SCHEMA,
        "rules": [_rule_to_json(rule, rulebook, devices, awake) for rule in RULES],
    }


def _rule_to_json(
    rule: Rule, rulebook: Rulebook, devices: Sequence[Labelled], awake: frozenset[Precondition]
) -> Json:
    reason = inactive_reason(rule, awake) or (
        "disabled in the settings" if rule.name in rulebook.thresholds.off else None
    )
    return {
        "name": rule.name,
        "title": rule.title,
        "subject_kind": str(rule.subject_kind),
        "level": str(rule.level),
        "for_seconds": _for_seconds(rule, rulebook.thresholds),
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
        "devices": [_on_device(rule, *one, rulebook) for one in _judged(rule, devices)],
    }


def _judged(rule: Rule, devices: Iterable[Labelled]) -> Iterable[Labelled]:
    """The devices whose readings are compared with a threshold."""
    return devices if rule.subject_kind is Subject.DEVICE and rule.threshold is not None else ()


def _on_device(rule: Rule, device: Device, label: str, rulebook: Rulebook) -> Json:
    figures = rulebook.for_device(device)
    return {
        "uuid": device.uuid,
        "index": device.index,
        "label": label,
        "threshold": _figure(rule, figures),
        "limit": device.limits.slowdown_celsius if rule.name == "thermal" else None,
        "disabled": rule.name in figures.off,
    }


def _figure(rule: Rule, figures: Thresholds) -> float | None:
    found: float | None = None if rule.threshold is None else getattr(figures, rule.threshold)
    return found


def _for_seconds(rule: Rule, figures: Thresholds) -> float:
    named = rule.rungs[0].for_figure
    return rule.for_seconds if named is None else float(getattr(figures, named))
