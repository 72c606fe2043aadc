"""The alerts of one sample, without history; and how long devices have been silent."""

from collections.abc import Iterable, Mapping
from math import inf

from msgspec.structs import replace

from andon.alerts.rules.commands import current
from andon.alerts.rules.lamps import LampBoard, as_firing, board
from andon.alerts.rules.state import EMPTY, AlertState
from andon.alerts.rules.state_machine import step
from andon.explain.conditions.rulebook import BY_NAME, Rulebook
from andon.explain.evidence.observation import Moment, Observation
from andon.model.alert import Alert
from andon.model.device import DeviceStatus, Snapshot, State

SILENCES = {"device_lost": State.LOST, "driver_hung": State.STALE}


def alerts_from_sample(snapshot: Snapshot, rulebook: Rulebook) -> tuple[Alert, ...]:
    """Returns the conditions that hold now as firing alerts in order; none about leases."""
    seen = Observation(snapshot, snapshot.events)
    state = step(EMPTY, seen, Moment(snapshot.at, 0.0), rulebook).state
    since = {status.device.uuid: status.since for status in snapshot.devices}
    return tuple(_firing(alert, state, since) for alert in current(state))


def lasting(devices: tuple[DeviceStatus, ...], alerts: Iterable[Alert]) -> tuple[DeviceStatus, ...]:
    """Returns the devices, each silent one since its stored alert began: a restarted server has
    seen less of it, and may know only its number."""
    if all(status.state not in SILENCES.values() for status in devices):
        return devices
    found = [one for one in alerts if one.rule in SILENCES]
    since = {(one.subject, SILENCES[one.rule]): one.since for one in found}
    known = {status.device.uuid for status in devices}
    gone = {one.device: one.subject for one in found if one.subject not in known}
    named = (_named(one, gone) for one in devices)
    return tuple(_since(one, since.get((one.device.uuid, one.state), inf)) for one in named)


def _named(status: DeviceStatus, gone: Mapping[int | None, str]) -> DeviceStatus:
    device, uuid = status.device, gone.get(status.device.index)
    if uuid is None or not device.uuid.startswith(f"{device.vendor}@"):
        return status
    return replace(status, device=replace(device, uuid=uuid))


def _since(status: DeviceStatus, since: float) -> DeviceStatus:
    """Returns the device as silent since its alert began, unless it has answered since: an alert
    outlasts a short answer."""
    answered_at = 0.0 if status.sample is None else status.sample.at
    return replace(status, since=since) if answered_at <= since < status.since else status


def board_from_sample(snapshot: Snapshot, rulebook: Rulebook) -> LampBoard:
    """Returns the lamps and headline of one sample."""
    return board(snapshot, alerts_from_sample(snapshot, rulebook))


def _firing(alert: Alert, state: AlertState, since: dict[str, float]) -> Alert:
    rungs = state.findings[alert.subject][alert.rule].rungs
    return as_firing(alert, BY_NAME[alert.rule], rungs, since.get(alert.subject))
