"""The alert state machine: pure, from a snapshot and two clocks to changes and notices.

Also the lamps and the headline, order and count of every list of alerts, what holds now if no
server watches (`standing`; only its lamps: `glance`), who is notified, when and with which text. A
part is imported when its name is first used: lamps need no state machine.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from andon.alerts.rules.commands import (
        acknowledge,
        current,
        raised,
        silence,
        unacknowledge,
        unsilence,
    )
    from andon.alerts.rules.persistence import dump, restore
    from andon.alerts.rules.state import EMPTY, AlertState, StepResult
    from andon.alerts.rules.state_machine import step
    from andon.explain.conditions.observation import (
        HeldDevices,
        Moment,
        Observation,
        OwnTrouble,
        PreviousLease,
        Sharing,
    )

_PARTS = {
    "andon.alerts.rules.commands": "acknowledge current raised silence unacknowledge unsilence",
    "andon.alerts.rules.persistence": "dump restore",
    "andon.alerts.rules.state": "EMPTY AlertState StepResult",
    "andon.alerts.rules.state_machine": "step",
    "andon.explain.conditions.observation": (
        "HeldDevices Moment Observation OwnTrouble PreviousLease Sharing"
    ),
}
_PLACES = {name: place for place, names in _PARTS.items() for name in names.split()}

__all__ = [
    "EMPTY",
    "AlertState",
    "HeldDevices",
    "Moment",
    "Observation",
    "OwnTrouble",
    "PreviousLease",
    "Sharing",
    "StepResult",
    "acknowledge",
    "current",
    "dump",
    "raised",
    "restore",
    "silence",
    "step",
    "unacknowledge",
    "unsilence",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return found
