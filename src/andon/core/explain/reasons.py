"""A reason: why a device is in its state, with evidence and what to do."""

from dataclasses import dataclass
from enum import StrEnum

from andon.model.device import Process


class ReasonCode(StrEnum):
    """The code of every explanation."""

    HEALTHY = "healthy"  # nothing is wrong
    LOST = "lost"  # the driver reports it as lost
    HUNG = "hung"  # no response
    ASLEEP = "asleep"  # suspended; not woken
    NO_DRIVER = "no_driver"
    VERSION_MISMATCH = "version_mismatch"  # the driver and its library differ in version
    NO_PERMISSION = "no_permission"
    NO_DEVICE = "no_device"
    HEAT = "heat"  # thermally throttled now
    HOT = "hot"  # near its limits
    MEMORY_HEAT = "memory_heat"
    FAN = "fan"  # heat or load explains the fan
    FAN_IDLE = "fan_idle"  # the fan runs although the device is idle and cool
    FAN_FAILED = "fan_failed"  # hot, and the fan has stopped
    POWER_CAP = "power_cap"  # the cap costs more than 20 % of the clock
    POWER_BOUND = "power_bound"  # at the power limit as designed: normal
    POWER_LIMIT_LOWERED = "power_limit_lowered"  # below the card's default
    POWER_BRAKE = "power_brake"
    HARDWARE_SLOWDOWN = "hardware_slowdown"
    CLOCKS_SET = "clocks_set"  # limited by application clocks, sync boost or a display
    LOW_CLOCKS = "low_clocks"  # under load, without a reason
    NARROW_LINK = "narrow_link"  # PCIe narrower or slower than the card supports, while busy
    STARVED = "starved"  # there is work, but the device waits for data
    LOW_OCCUPANCY = "low_occupancy"  # always busy, but little of the chip is active
    MEMORY_FULL = "memory_full"  # nearly full, held by busy processes
    IDLE_MEMORY = "idle_memory"  # memory held by an idle process
    UNATTRIBUTED_MEMORY = "unattributed_memory"  # memory held by no visible process
    MEMORY_LEAK = "memory_leak"  # memory rises steadily
    SHARED = "shared"  # several users compete
    GRAPHICS = "graphics"  # a desktop uses memory
    IDLE_HELD = "idle_held"  # held but idle
    ECC = "ecc"
    SLOWER_THAN_PEERS = "slower_than_peers"
    UNIFIED = "unified"  # shares the system's memory
    PARTITIONED = "partitioned"  # MIG
    UNREADABLE = "unreadable"  # important values cannot be read


CERTAIN_FROM = 0.9
LIKELY_FROM = 0.6
TROUBLE_FROM = 20.0
"""Reasons of less weight are plain facts: the lamp stays green."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One reading, or a number derived from readings, that supports a reason."""

    name: str
    value: str | float | None  # None: it cannot be read, which is the evidence
    unit: str = ""
    at: float | None = None  # when it was read; None if it does not change


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
        """The confidence as a word."""
        if self.confidence >= CERTAIN_FROM:
            return "certain"
        return "likely" if self.confidence >= LIKELY_FROM else "possible"
