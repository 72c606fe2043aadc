"""The part of amdgpu's `gpu_metrics` that andon uses: why the clocks are limited.

Supports the formats of the kernel's kgd_pp_interface.h whose throttle status means the same on
every chip: 1.3 (cards) and 2.2 (processors with graphics).
"""

import struct
from typing import Final

from andon.drivers.shared.sysfs import SysfsValue
from andon.model.throttling import (
    CURRENT_LIMIT,
    HW_THERMAL,
    POWER_CAP,
    RELIABILITY_LIMIT,
    TEMPERATURE_LIMIT,
)

_HEADER: Final = struct.Struct("<HBB")  # size, format, content
_STATUS: Final = struct.Struct("<Q")
_STATUS_OFFSETS: Final = {(1, 3): 112, (2, 2): 120}
_UNFILLED: Final = 0xFFFF_FFFF_FFFF_FFFF  # the driver presets every byte
PROCESSOR_FORMATS: Final = frozenset({2, 3})

LIMITERS: Final = (
    (range(16), POWER_CAP.name),  # package power: PPT0 to 3, SPL, fast and slow PPT
    (range(16, 32), CURRENT_LIMIT.name),  # TDC, EDC, APCC
    (range(32, 44), TEMPERATURE_LIMIT.name),  # edge, hotspot, memory, regulators, liquid
    (range(44, 48), HW_THERMAL.name),  # VRHOT, PROCHOT
    (range(56, 57), POWER_CAP.name),  # PPM
    (range(57, 58), RELIABILITY_LIMIT.name),  # FIT
)
"""Bits and names. A temperature bit means that this limiter was active, which on many healthy cards
it always is; so its name is neutral, and heat is judged by the temperature."""


def version(content: bytes) -> tuple[int, int] | None:
    """Returns format and content revision; None if it is not a metrics table."""
    if len(content) < _HEADER.size:
        return None
    size, major, minor = _HEADER.unpack_from(content)
    return (major, minor) if size <= len(content) else None


def throttle(answer: SysfsValue[bytes]) -> SysfsValue[tuple[str, ...]]:
    """Returns the names of what limits the clocks now."""
    if answer.value is None:
        return SysfsValue(None, answer.reason, answer.absent)
    found = version(answer.value)
    if found is None:
        return SysfsValue(None, "gpu_metrics is truncated")
    offset = _STATUS_OFFSETS.get(found)
    if offset is None or len(answer.value) < offset + _STATUS.size:
        return SysfsValue(None, f"gpu_metrics {found[0]}.{found[1]} has no common throttle status")
    status = _STATUS.unpack_from(answer.value, offset)[0]
    if status == _UNFILLED:
        return SysfsValue(None, "the driver does not fill in the throttle status")
    return SysfsValue(limiter_names(status))


def limiter_names(status: int) -> tuple[str, ...]:
    """Returns each name once, in the table's order."""
    hit = (name for bits, name in LIMITERS if any(status >> bit & 1 for bit in bits))
    return tuple(dict.fromkeys(hit))
