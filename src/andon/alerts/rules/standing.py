"""The conditions that hold now, judged from one sample: used when no server watches."""

from andon.alerts.rules.commands import current
from andon.alerts.rules.glance import as_firing
from andon.alerts.rules.lamps import LampBoard, board
from andon.alerts.rules.state import EMPTY, AlertState
from andon.alerts.rules.state_machine import step
from andon.explain.conditions.observation import (
    NOT_SHARED,
    HeldDevices,
    Moment,
    Observation,
    Sharing,
)
from andon.explain.conditions.rulebook import BY_NAME, Rulebook
from andon.model.alert import Alert
from andon.model.device import Snapshot


def standing(
    snapshot: Snapshot,
    rulebook: Rulebook,
    leases: tuple[HeldDevices, ...] | None = None,
    sharing: Sharing = NOT_SHARED,
) -> tuple[Alert, ...]:
    """What would fire if it lasted, as firing alerts in order; without leases, none about them."""
    seen = Observation(snapshot, snapshot.events, leases=leases, sharing=sharing)
    state = step(EMPTY, seen, Moment(snapshot.at, 0.0), rulebook).state
    since = {status.device.uuid: status.since for status in snapshot.devices}
    return tuple(_firing(alert, state, since) for alert in current(state))


def board_now(snapshot: Snapshot, rulebook: Rulebook) -> LampBoard:
    """The lamps of one sample."""
    return board(snapshot, standing(snapshot, rulebook))


def _firing(alert: Alert, state: AlertState, since: dict[str, float]) -> Alert:
    rungs = state.findings[alert.subject][alert.rule].rungs
    return as_firing(alert, BY_NAME[alert.rule], rungs, since.get(alert.subject))
