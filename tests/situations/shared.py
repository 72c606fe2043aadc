"""What several groups of situations share: alarms that must not sound, and usual jobs."""

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
        "lost",
        "hung",
        "heat",
        "hot",
        "memory_heat",
        "fan_idle",
        "fan_failed",
        "power_cap",
        "power_limit_lowered",
        "power_brake",
        "hardware_slowdown",
        "low_clocks",
        "narrow_link",
        "starved",
        "low_occupancy",
        "idle_memory",
        "unattributed_memory",
        "memory_leak",
        "idle_held",
        "ecc",
        "slower_than_peers",
    }
)
UNUSED = frozenset({"idle_held", "idle_memory", "starved"})
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
