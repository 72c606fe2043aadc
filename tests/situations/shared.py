"""What several groups of situations share: alarms that must not sound, and usual jobs."""

from andon.core.explain.reasons import ReasonCode
from andon.model.device import DeviceStatus, Process
from tests.situations.story import (
    MIB,
    Model,
    card,
    process,
    seen,
    work,
)

# Alarms that a healthy card must not raise.
ALARMS = frozenset(
    {
        ReasonCode.LOST,
        ReasonCode.HUNG,
        ReasonCode.HEAT,
        ReasonCode.HOT,
        ReasonCode.MEMORY_HEAT,
        ReasonCode.FAN_IDLE,
        ReasonCode.FAN_FAILED,
        ReasonCode.POWER_CAP,
        ReasonCode.POWER_LIMIT_LOWERED,
        ReasonCode.POWER_BRAKE,
        ReasonCode.HARDWARE_SLOWDOWN,
        ReasonCode.LOW_CLOCKS,
        ReasonCode.NARROW_LINK,
        ReasonCode.STARVED,
        ReasonCode.LOW_OCCUPANCY,
        ReasonCode.IDLE_MEMORY,
        ReasonCode.UNATTRIBUTED_MEMORY,
        ReasonCode.MEMORY_LEAK,
        ReasonCode.IDLE_HELD,
        ReasonCode.ECC,
        ReasonCode.SLOWER_THAN_PEERS,
    }
)
UNUSED = frozenset({ReasonCode.IDLE_HELD, ReasonCode.IDLE_MEMORY, ReasonCode.STARVED})
PID = 4242


def part(model: Model, share: float) -> int:
    """A share of the card's memory."""
    return int(model.memory_bytes * share)


def job(model: Model, share: float = 0.5, utilization: int = 97, pid: int = PID) -> Process:
    """The one process of a card of which `share` is in use; the rest is the context's overhead."""
    return process(pid, part(model, share) - 400 * MIB, utilization)


def training(model: Model, index: int = 0) -> DeviceStatus:
    """A card that trains and is well."""
    return seen(card(model, index), work(model), job(model, pid=PID + index))
