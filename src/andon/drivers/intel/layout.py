"""Paths of i915 and xe for the same values: clocks, idle time, throttle reasons."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from andon.drivers.shared.sysfs import SysfsValue, Tree
from andon.model.throttling import CURRENT_LIMIT, HW_THERMAL, POWER_CAP, SW_THERMAL

POWER: Final = POWER_CAP.name
CURRENT: Final = CURRENT_LIMIT.name
HEAT: Final = SW_THERMAL.name
HOT_SIGNAL: Final = HW_THERMAL.name

REASONS: Final = {
    "pl1": POWER,
    "pl2": POWER,
    "psys_pl1": POWER,
    "psys_pl2": POWER,
    "psys_crit": POWER,
    "pl4": CURRENT,  # peak current and Iccmax
    "iccmax": CURRENT,
    "vr_tdc": CURRENT,
    "fastvmode": CURRENT,
    "thermal": HEAT,
    "soc_thermal": HEAT,
    "soc_avg_thermal": HEAT,
    "mem_thermal": HEAT,
    "ratl": HEAT,  # the running average of the temperature
    "vr_thermal": HOT_SIGNAL,
    "vr_thermalert": HOT_SIGNAL,
    "prochot": HOT_SIGNAL,
}


class SysfsLayout(Struct, frozen=True):
    """Paths in the device's folder; of several, the first that exists is used."""

    clock_mhz: str
    fastest_mhz: str
    idle_milliseconds: tuple[str, ...]
    throttle: tuple[tuple[str, str], ...]  # a folder for each part, and the prefix of its files


def find(device: Tree, driver: str) -> SysfsLayout:
    return xe(device) if driver == "xe" else i915(device)


def i915(device: Tree) -> SysfsLayout:
    """Returns i915's paths: the card's folder under `drm`, with the largest of its parts."""
    cards = [name for name in device.names("drm") if name.startswith("card")]
    card = f"drm/{cards[0]}" if cards else "drm/card0"
    parts = [name for name in device.names(f"{card}/gt") if name.startswith("gt")]
    return SysfsLayout(
        clock_mhz=f"{card}/gt_act_freq_mhz",
        fastest_mhz=f"{card}/gt_RP0_freq_mhz",
        idle_milliseconds=(f"{card}/gt/gt0/rc6_residency_ms", f"{card}/power/rc6_residency_ms"),
        throttle=tuple((f"{card}/gt/{part}", "throttle_reason_") for part in parts),
    )


def xe(device: Tree) -> SysfsLayout:
    """Returns xe's paths. The first part is for graphics and compute, the second for video:
    reads the first's clock."""
    tiles = [name for name in device.names() if name.startswith("tile")]
    parts = [
        f"{tile}/{part}" for tile in tiles for part in device.names(tile) if part.startswith("gt")
    ]
    first = parts[0] if parts else "tile0/gt0"
    return SysfsLayout(
        clock_mhz=f"{first}/freq0/act_freq",
        fastest_mhz=f"{first}/freq0/rp0_freq",
        idle_milliseconds=(f"{first}/gtidle/idle_residency_ms",),
        throttle=tuple((f"{part}/freq0/throttle", "reason_") for part in parts),
    )


def throttle(device: Tree, layout: SysfsLayout) -> SysfsValue[tuple[str, ...]]:
    """Returns what limits the clocks now; details are read only if something does."""
    found: list[str] = []
    answers = []
    for folder, prefix in layout.throttle:
        name = "throttle_reason_status" if prefix.startswith("throttle") else "status"
        status = device.integer(f"{folder}/{name}")
        answers.append(status)
        if status.value:
            found += _reasons(device, folder, prefix)
    if any(answer.value is not None for answer in answers):
        return SysfsValue(tuple(dict.fromkeys(found)))
    reasons = [answer.reason for answer in answers if not answer.absent]
    return SysfsValue(None, (*reasons, "not reported by this kernel (no throttle reasons)")[0])


def _reasons(device: Tree, folder: str, prefix: str) -> Iterable[str]:
    for name in device.names(folder):
        cause = name.removeprefix(prefix)
        if (
            name.startswith(prefix)
            and cause != "status"
            and device.integer(f"{folder}/{name}").value
        ):
            yield REASONS.get(cause, cause)
