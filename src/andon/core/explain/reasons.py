"""What a reason is: why a device is as it is, with the numbers that show it and what to do."""

from dataclasses import dataclass
from enum import StrEnum

from andon.model.device import Process


class ReasonCode(StrEnum):
    """Every explanation there is, one word each."""

    HEALTHY = "healthy"  # nothing is wrong
    LOST = "lost"  # the driver says that it is gone
    HUNG = "hung"  # asked, and no answer
    ASLEEP = "asleep"  # suspended, and left alone
    NO_DRIVER = "no_driver"
    VERSION_MISMATCH = "version_mismatch"  # the driver and its library are of two versions
    NO_PERMISSION = "no_permission"
    NO_DEVICE = "no_device"
    HEAT = "heat"  # a thermal slowdown costs clocks now
    HOT = "hot"  # near its limits
    MEMORY_HEAT = "memory_heat"
    FAN = "fan"  # heat or load explains the fan
    FAN_IDLE = "fan_idle"  # the fan runs although the device is idle and cool
    FAN_FAILED = "fan_failed"  # hot, and the fan stands
    POWER_CAP = "power_cap"  # the cap costs more than a fifth of the clock
    POWER_BOUND = "power_bound"  # at the power limit as designed: normal
    POWER_LIMIT_LOWERED = "power_limit_lowered"  # below the card's default
    POWER_BRAKE = "power_brake"
    HARDWARE_SLOWDOWN = "hardware_slowdown"
    CLOCKS_SET = "clocks_set"  # applications clocks, sync boost or a display hold them
    LOW_CLOCKS = "low_clocks"  # under load, and no reason given
    NARROW_LINK = "narrow_link"  # PCIe narrower or slower than the card's, while busy
    STARVED = "starved"  # work is there, and the device waits for data
    LOW_OCCUPANCY = "low_occupancy"  # always busy, and little of the chip works
    MEMORY_FULL = "memory_full"  # nearly full, held by processes that work
    IDLE_MEMORY = "idle_memory"  # memory held by a process that does nothing
    UNATTRIBUTED_MEMORY = "unattributed_memory"  # memory that no process explains
    MEMORY_LEAK = "memory_leak"  # memory rises steadily
    SHARED = "shared"  # several users compete
    GRAPHICS = "graphics"  # a desktop takes memory
    IDLE_HELD = "idle_held"  # held, and idle
    ECC = "ecc"
    SLOWER_THAN_PEERS = "slower_than_peers"
    UNIFIED = "unified"  # the memory is the system's
    PARTITIONED = "partitioned"  # MIG
    UNREADABLE = "unreadable"  # important values cannot be read


CERTAIN_FROM = 0.9
LIKELY_FROM = 0.6
TROUBLE_FROM = 20.0
"""Reasons of less weight are facts that answer a question: the lamp stays green."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One reading, or a number derived from readings, that a reason rests on."""

    name: str
    value: str | float | int | None  # None: it cannot be read, and that is the point
    unit: str = ""
    at: float | None = None  # when it was read; None for what does not change


@dataclass(frozen=True, slots=True)
class Reason:
    """One explanation. The greater weight comes first; below TROUBLE_FROM nothing is wrong."""

    code: ReasonCode
    weight: float
    confidence: float  # 0 to 1
    sentence: str
    evidence: tuple[Evidence, ...] = ()
    process: Process | None = None
    advice: str = ""

    @property
    def is_trouble(self) -> bool:
        return self.weight >= TROUBLE_FROM

    @property
    def confidence_label(self) -> str:
        """The confidence as a person says it."""
        if self.confidence >= CERTAIN_FROM:
            return "certain"
        return "likely" if self.confidence >= LIKELY_FROM else "possible"
