"""The part of amdgpu's `gpu_metrics` that andon uses: what held the clocks down.

Read are the formats of the kernel's kgd_pp_interface.h that hold a throttle status which means the
same on every chip: 1.3 (cards) and 2.2 (processors with graphics).
"""

import struct
from typing import Final

from andon.backends.sysfs import SysfsValue

_HEADER: Final = struct.Struct("<HBB")  # size, format, content
_STATUS: Final = struct.Struct("<Q")
_STATUS_OFFSETS: Final = {(1, 3): 112, (2, 2): 120}
_UNFILLED: Final = 0xFFFF_FFFF_FFFF_FFFF  # the driver presets every byte
PROCESSOR_FORMATS: Final = frozenset({2, 3})

CURRENT: Final = "current_limit"
HEAT: Final = "temperature_limit"
HOT_SIGNAL: Final = "hw_thermal_slowdown"
POWER: Final = "sw_power_cap"

LIMITERS: Final = (
    (range(16), POWER),  # package power: PPT0 to 3, SPL, fast and slow PPT
    (range(16, 32), CURRENT),  # TDC, EDC, APCC
    (range(32, 44), HEAT),  # edge, hotspot, memory, regulators, liquid
    (range(44, 48), HOT_SIGNAL),  # VRHOT, PROCHOT
    (range(56, 57), POWER),  # PPM
    (range(57, 58), "reliability_limit"),  # FIT
)
"""Bits and words. A temperature bit says that this limiter took part, which on many healthy cards
it does all the time; so its word is not one of alarm, and heat is judged by the temperature."""


def version(content: bytes) -> tuple[int, int] | None:
    """Format and content revision; None for what is no metrics table."""
    if len(content) < _HEADER.size:
        return None
    size, major, minor = _HEADER.unpack_from(content)
    return (major, minor) if size <= len(content) else None


def throttle(answer: SysfsValue[bytes]) -> SysfsValue[tuple[str, ...]]:
    """What limits the clocks now, in words."""
    if answer.value is None:
        return SysfsValue(None, answer.reason, answer.absent)
    found = version(answer.value)
    if found is None:
        return SysfsValue(None, "gpu_metrics is cut short")
    offset = _STATUS_OFFSETS.get(found)
    if offset is None or len(answer.value) < offset + _STATUS.size:
        return SysfsValue(None, f"gpu_metrics {found[0]}.{found[1]} has no common throttle status")
    status = _STATUS.unpack_from(answer.value, offset)[0]
    if status == _UNFILLED:
        return SysfsValue(None, "the driver does not fill in the throttle status")
    return SysfsValue(words(status))


def words(status: int) -> tuple[str, ...]:
    """Each word once, in the table's order."""
    hit = (word for bits, word in LIMITERS if any(status >> bit & 1 for bit in bits))
    return tuple(dict.fromkeys(hit))
