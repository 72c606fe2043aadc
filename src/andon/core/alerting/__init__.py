"""The alert state machine: pure, from a snapshot and two clocks to changes and notices."""

from andon.core.alerting.commands import (
    acknowledge,
    current,
    raised,
    silence,
    unacknowledge,
    unsilence,
)
from andon.core.alerting.persistence import dump, restore
from andon.core.alerting.state import EMPTY, AlertState, StepResult
from andon.core.alerting.state_machine import step
from andon.core.conditions.observation import (
    HeldDevices,
    Moment,
    Observation,
    OwnTrouble,
    PreviousLease,
    Sharing,
)

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
