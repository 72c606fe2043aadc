"""What several groups of situations share: alarms that must not sound, and usual jobs."""

from andon.core.explain.reasons import Code
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
        Code.LOST,
        Code.HUNG,
        Code.HEAT,
        Code.HOT,
        Code.MEMORY_HEAT,
        Code.FAN_IDLE,
        Code.FAN_FAILED,
        Code.POWER_CAP,
        Code.POWER_LIMIT_LOWERED,
        Code.POWER_BRAKE,
        Code.HARDWARE_SLOWDOWN,
        Code.LOW_CLOCKS,
        Code.NARROW_LINK,
        Code.UNDERFED,
        Code.SHALLOW,
        Code.HOARDED,
        Code.GHOST,
        Code.LEAK,
        Code.IDLE_HELD,
        Code.ECC,
        Code.SLOWER_THAN_PEERS,
    }
)
UNUSED = frozenset({Code.IDLE_HELD, Code.HOARDED, Code.UNDERFED})
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
