"""Payloads about alerts: the board, the rules, and alerts without command lines."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from andon.access.roles import Sight
from andon.alerts.rules.lamps import DeviceLamp, LampBoard
from andon.alerts.rules.listing import counts, entries, is_soon, listed
from andon.explain.conditions.catalogue import CONDITIONS, RULES
from andon.explain.conditions.condition import (
    READINGS,
    Condition,
    Precondition,
    Rung,
    Subject,
    inactive_reason,
)
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.conditions.stated import stated
from andon.leases.rules.occupants import Holder
from andon.model.alert import Alert, Phase
from andon.model.device import Device, DeviceStatus
from andon.model.lamp import Lamp
from andon.model.naming import device_labels
from andon.model.shapes import names_of, plain, to_json
from andon.model.thresholds import Thresholds
from andon.model.verdict import DeviceVerdict
from andon.model.wire import Json
from andon.web.answers import schemas

BOARD_SCHEMA, RULES_SCHEMA = "andon.board/1", "andon.rules/1"
RUNG_WITHOUT = ("for_figure",)  # a name inside the settings
_RUNG = names_of(Rung, without=RUNG_WITHOUT)

Labelled = tuple[Device, str]
"""A device and what it is called."""


def seen_by(sight: Sight, alert: Alert) -> Alert:
    """Hides the command lines that this caller may not see; program names stay."""
    if all(party.command is None or sight.shows(party.user) for party in alert.affected):
        return alert
    shown = (p if sight.shows(p.user) else replace(p, command=None) for p in alert.affected)
    return replace(alert, affected=tuple(shown))


def board_to_json(
    board: LampBoard,
    node: str,
    holders: Mapping[str, Sequence[Holder]] | None = None,
    holders_note: str | None = None,
    verdicts: Iterable[DeviceVerdict] = (),
    alerts: Iterable[Alert] = (),
) -> Json:
    """The lamp, the lease holders and the availability of every device."""
    known = {one.uuid: one for one in verdicts}
    alerts = list(alerts)
    lights = {(one.subject, one.rule): one for one in alerts if one.state is Phase.FIRING}
    soon = {one.subject: one for one in reversed(listed(alerts)) if is_soon(one)}
    found = schemas.Board(
        node=node,
        at=board.at,
        simulated=board.simulated,
        headline=board.headline,
        headline_alert=board.headline_alert,
        lamp=board.lamp,
        devices=tuple(
            _on_board(
                one,
                lights.get((one.uuid, one.rule or "")),
                soon.get(one.uuid) if one.lamp is Lamp.RING else None,
                known.get(one.uuid),
            )
            for one in board.devices
        ),
        holders={uuid: list(on) for uuid, on in (holders or {}).items()},
        holders_note=holders_note,
    )
    return {"schema": BOARD_SCHEMA, **to_json(found)}


def entries_to_json(alerts: Iterable[Alert]) -> Json:
    """The lines of the list and their counts: one order and one count on every surface."""
    found = entries(alerts)
    lines = [
        schemas.AlertEntry(
            id=one.alert.id,
            level=one.level,
            lamp=Lamp.GREY if one.alert.state is Phase.RESOLVED else one.lamp,
            related=[other.id for other in one.related],
        )
        for one in found
    ]
    return {
        "entries": [to_json(line) for line in lines],
        "counts": to_json(schemas.AlertCounts(*counts(found))),
    }


def _on_board(
    lamp: DeviceLamp, alert: Alert | None, soon: Alert | None, verdict: DeviceVerdict | None
) -> schemas.BoardDevice:
    return schemas.BoardDevice(
        **plain(lamp, names_of(DeviceLamp)),
        lit_by=None if alert is None else _lit_by(alert),
        soon=None if soon is None else schemas.Soon(soon.id, soon.message, soon.fires_in_seconds),
        verdict=verdict,
    )


def _lit_by(alert: Alert) -> schemas.LitBy:
    seen = alert.acknowledged
    return schemas.LitBy(
        id=alert.id,
        rule=alert.rule,
        since=alert.since,
        advice=alert.advice,
        users=list(dict.fromkeys(party.user for party in alert.affected if party.user)),
        acknowledged_by=None if seen is None else seen.by,
        silenced_until=alert.silenced_until,
    )


def rules_to_json(
    rulebook: Rulebook, statuses: Sequence[DeviceStatus], awake: frozenset[Precondition] = READINGS
) -> Json:
    """All rules, with the thresholds in effect here."""
    devices = labelled(rulebook, statuses)
    return {
        "schema": RULES_SCHEMA,
        "rules": [
            _rule_to_json(stated(rule, rulebook.thresholds), rulebook, devices, awake)
            for rule in RULES
        ],
        "explained_only": [
            plain(one, names_of(schemas.ConditionRow)) for one in CONDITIONS if not one.rungs
        ],
    }


def labelled(rulebook: Rulebook, statuses: Sequence[DeviceStatus]) -> list[Labelled]:
    """Returns the devices with their labels, and sets the labels in the rulebook too."""
    rulebook.learn_labels(statuses)
    labels = device_labels(statuses)
    return [(status.device, labels[status.device.uuid]) for status in statuses]


def _rule_to_json(
    rule: Condition, rulebook: Rulebook, devices: Sequence[Labelled], awake: frozenset[Precondition]
) -> Json:
    reason = inactive_here(rule, rulebook, awake)
    found = schemas.RuleRow(
        name=rule.name,
        title=rule.title,
        subject_kind=str(rule.subject_kind),
        level=rule.level,
        for_seconds=rule.for_seconds,
        clear_seconds=rule.clear_seconds,
        threshold=_figure(rule, rulebook.thresholds),
        unit=rule.unit if rule.threshold is None else rule.threshold.rpartition("_")[2],
        why=rule.why,
        advice=rule.advice,
        active=reason is None,
        inactive_reason=reason,
        levels=list(rule.rungs),
        devices=on_devices(rule, devices, rulebook),
    )
    return {**to_json(found), "levels": rungs_to_json(rule)}


def rungs_to_json(rule: Condition) -> list[Json]:
    return [plain(rung, _RUNG) for rung in rule.rungs]


def inactive_here(
    rule: Condition, rulebook: Rulebook, awake: frozenset[Precondition]
) -> str | None:
    """Returns why the condition cannot become an alert here; None if it can."""
    if rule.name in rulebook.thresholds.off:
        return "disabled in the settings"
    return inactive_reason(rule, awake)


def on_devices(
    rule: Condition, devices: Iterable[Labelled], rulebook: Rulebook
) -> list[schemas.OnDevice]:
    """The devices whose readings are compared with a threshold."""
    if rule.subject_kind is not Subject.DEVICE or rule.threshold is None:
        return []
    return [_on_device(rule, *one, rulebook) for one in devices]


def _on_device(rule: Condition, device: Device, label: str, rulebook: Rulebook) -> schemas.OnDevice:
    figures = rulebook.for_device(device)
    return schemas.OnDevice(
        uuid=device.uuid,
        index=device.index,
        label=label,
        threshold=_figure(rule, figures),
        limit=device.limits.slowdown_celsius if rule.name == "thermal" else None,
        disabled=rule.name in figures.off,
    )


def _figure(rule: Condition, figures: Thresholds) -> float | None:
    found: float | None = None if rule.threshold is None else getattr(figures, rule.threshold)
    return found
