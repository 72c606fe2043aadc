"""One row per throttle reason: why the clocks of a device are not higher."""

from enum import StrEnum
from typing import Final

from msgspec import Struct


class ThrottleKind(StrEnum):
    """The cause behind a throttle reason."""

    IDLE = "idle"  # there is nothing to do
    SETTING = "setting"  # someone or something chose it
    POWER = "power"
    THERMAL = "thermal"
    HARDWARE = "hardware"  # the board slows it down and does not say why


class ThrottleReason(Struct, frozen=True):
    """One reason. Its name is what a snapshot holds."""

    name: str
    kind: ThrottleKind
    title: str  # in a sentence or a list
    label: str  # in a narrow table; empty if it is not worth a cell
    history_bit: int  # its place in stored masks: never changes
    nvml_bit: int | None = None  # NVIDIA's drivers report exactly the reasons that have one
    smi_names: tuple[str, ...] = ()  # what nvidia-smi has called it, besides its name
    alarming: bool = False
    """Whether it is a warning by itself. AMD sets its temperature limiter on healthy cards too, so
    heat is then judged by the temperature."""


IDLE: Final = ThrottleReason("gpu_idle", ThrottleKind.IDLE, "idle", "", 1, 0x001)
CLOCKS_SET: Final = ThrottleReason(
    "applications_clocks_setting", ThrottleKind.SETTING, "application clock setting", "clocks set",
    2, 0x002, ("user_defined_clocks",),
)  # fmt: skip
POWER_CAP: Final = ThrottleReason(
    "sw_power_cap", ThrottleKind.POWER, "power cap", "power cap", 3, 0x004
)
HW_SLOWDOWN: Final = ThrottleReason(
    "hw_slowdown", ThrottleKind.HARDWARE, "hardware slowdown", "hw slowdown", 4, 0x008,
    alarming=True,
)  # fmt: skip
SYNC_BOOST: Final = ThrottleReason(
    "sync_boost", ThrottleKind.SETTING, "sync boost", "sync boost", 5, 0x010
)
SW_THERMAL: Final = ThrottleReason(
    "sw_thermal_slowdown", ThrottleKind.THERMAL, "thermal (software)", "thermal", 6, 0x020,
    alarming=True,
)  # fmt: skip
HW_THERMAL: Final = ThrottleReason(
    "hw_thermal_slowdown", ThrottleKind.THERMAL, "thermal (hardware)", "hw thermal", 7, 0x040,
    alarming=True,
)  # fmt: skip
POWER_BRAKE: Final = ThrottleReason(
    "hw_power_brake_slowdown", ThrottleKind.POWER, "power brake", "power brake", 8, 0x080,
    alarming=True,
)  # fmt: skip
DISPLAY_CLOCKS: Final = ThrottleReason(
    "display_clock_setting", ThrottleKind.SETTING, "display clock setting", "display", 9, 0x100,
    ("display_clocks_setting",),
)  # fmt: skip
CURRENT_LIMIT: Final = ThrottleReason(
    "current_limit", ThrottleKind.POWER, "current limit", "current", 10
)
TEMPERATURE_LIMIT: Final = ThrottleReason(
    "temperature_limit", ThrottleKind.THERMAL, "temperature limit", "temp limit", 11
)
RELIABILITY_LIMIT: Final = ThrottleReason(
    "reliability_limit", ThrottleKind.SETTING, "reliability limit", "reliability", 12
)

REASONS: Final = (
    IDLE, CLOCKS_SET, POWER_CAP, HW_SLOWDOWN, SYNC_BOOST, SW_THERMAL, HW_THERMAL, POWER_BRAKE,
    DISPLAY_CLOCKS, CURRENT_LIMIT, TEMPERATURE_LIMIT, RELIABILITY_LIMIT,
)  # fmt: skip
"""Every reason by which the backends name a throttle; a driver may add others."""
OTHER_BIT: Final = 0
"""The place in stored masks of all reasons without a row."""
OTHER: Final = "other"

NVIDIA_REASONS: Final = tuple(reason for reason in REASONS if reason.nvml_bit is not None)
"""In the driver's order; one that it does not report is inactive."""
_ROWS = {reason.name: reason for reason in REASONS}
_SMI_NAMES = {old: reason.name for reason in REASONS for old in reason.smi_names}


def reason_of(name: str) -> ThrottleReason:
    """Returns the row of a reason; a harmless setting of that name if there is none."""
    title = name.replace("_", " ")
    return _ROWS.get(name) or ThrottleReason(name, ThrottleKind.SETTING, title, title, OTHER_BIT)


def reason_of_smi(word: str) -> str:
    """Returns the name of a reason that nvidia-smi prints."""
    return _SMI_NAMES.get(word, word)
