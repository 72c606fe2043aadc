"""Payloads about alerts: the board, and the lines of the list."""

from collections.abc import Iterable, Mapping, Sequence

from andon.alerts.rules.lamps import LampBoard
from andon.alerts.rules.listing import counts, entries, is_soon, listed
from andon.alerts.rules.overview import AlertOverview
from andon.leases.rules.occupants import Holder
from andon.model.alert import Alert, AlertList, Phase
from andon.model.lamp import DeviceLamp, Lamp
from andon.model.shapes import names_of, plain
from andon.model.verdict import DeviceVerdict
from andon.web.answers import schemas


def shown_board(
    board: LampBoard,
    node: str,
    holders: Mapping[str, Sequence[Holder]] | None = None,
    holders_note: str | None = None,
    verdicts: Iterable[DeviceVerdict] = (),
    alerts: Iterable[Alert] = (),
) -> schemas.Board:
    """The lamp, the lease holders and the availability of every device."""
    known = {one.uuid: one for one in verdicts}
    alerts = list(alerts)
    lights = {(one.subject, one.rule): one for one in alerts if one.state is Phase.FIRING}
    soon = {one.subject: one for one in reversed(listed(alerts)) if is_soon(one)}
    return schemas.Board(
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


def alert_page(found: AlertOverview) -> schemas.AlertAnswer:
    """The list, its lines and their counts: one order and one count on every surface."""
    listed = entries(found.alerts)
    lines = [
        schemas.AlertEntry(
            id=one.alert.id,
            level=one.level,
            lamp=Lamp.GREY if one.alert.state is Phase.RESOLVED else one.lamp,
            related=[other.id for other in one.related],
        )
        for one in listed
    ]
    return schemas.AlertAnswer(
        **plain(found, names_of(AlertList)),
        entries=lines,
        counts=schemas.AlertCounts(*counts(listed)),
        note=found.note,
    )


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
