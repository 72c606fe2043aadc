"""What a run used of one device, as in the last line of its record, and of all devices together."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypedDict

from andon.model.codec import Amount, Name, Number, Whole, read
from andon.model.wire import Json

SPREADS = (
    "utilization_percent", "memory_used_bytes", "memory_percent", "memory_utilization_percent",
    "sm_active_percent", "temperature_celsius", "power_watts", "fan_percent", "sm_clock_mhz",
    "memory_clock_mhz",
)  # fmt: skip
"""The readings of which the summary of a device has a `RunSpread`."""


class RunSpread(TypedDict):
    """A reading over the whole run, each value weighted with the time that it stands for."""

    min: Number | None
    max: Number | None
    mean: Number | None
    p95: Number | None


class IdleSpells(TypedDict):
    """The spells in which nothing ran on a device."""

    count: Whole
    mean_seconds: Amount
    longest_seconds: Amount
    source: Name  # "driver": its readings every 200 ms; "samples": those of this record


class MemoryPlateau(TypedDict):
    """The memory that a device held for most of the time."""

    bytes: Whole
    share: Amount  # of the time, 0 to 1
    since_seconds: Amount  # from the begin, when it was first reached


class DeviceUse(TypedDict):
    """What a run used of one device; besides these, a `RunSpread` for each of `SPREADS`.

    A reader always finds every key; what is not known is None.
    """

    index: Whole | None
    name: Name | None
    label: Name | None
    samples: Whole
    held_seconds: Amount | None  # from when the run had it: one may join late, or leave early
    idle_share: Amount | None  # 0 to 1, of the time in which utilisation was known
    idle_spells: IdleSpells | None
    throttle_share: Amount | None  # 0 to 1: slowed down by power, heat or hardware
    throttle_by_cause: dict[Name, Amount]  # reason of model.throttling → share, settings too
    peak_memory_bytes: Whole | None
    memory_plateau: MemoryPlateau | None
    energy_joules: Amount | None
    energy_source: Name | None  # "counter" of the device, or "power": an estimate from the samples


_NO_SPREAD = RunSpread(min=None, max=None, mean=None, p95=None)
_NO_USE: Json = {
    **dict.fromkeys(DeviceUse.__annotations__),
    "samples": 0,
    "throttle_by_cause": {},
    **dict.fromkeys(SPREADS, _NO_SPREAD),
}


@cache
def _written() -> Any:
    """Returns the type of a stored summary: an older record has fewer keys."""
    named = {**DeviceUse.__annotations__, **dict.fromkeys(SPREADS, RunSpread)}
    return TypedDict("_Written", {key: kind | None for key, kind in named.items()}, total=False)  # type: ignore[operator]


def use_from_json(value: object) -> dict[str, Any]:
    """Returns every key of a `DeviceUse`, and no other."""
    found: Json = read(_written(), value)
    return {**_NO_USE, **{name: one for name, one in found.items() if one is not None}}


# What a run used of several devices, from one `DeviceUse` each.


def known_of(used: Iterable[Mapping[str, Any]], name: str) -> list[Any]:
    """Returns the values of the devices that have one; of a spread its mean."""
    found = (device.get(name) for device in used)
    values = (one["mean"] if isinstance(one, dict) else one for one in found)
    return [value for value in values if value is not None]


def mean_of(used: Iterable[Mapping[str, Any]], name: str) -> float | None:
    """Returns the mean over devices; None if none of them has a value."""
    known = known_of(used, name)
    return sum(known) / len(known) if known else None


def sum_of(used: Iterable[Mapping[str, Any]], name: str) -> float | None:
    """Returns the sum over devices; None if one has no value: a part is not the whole."""
    return whole_sum(device.get(name) for device in used)


def whole_sum(values: Iterable[float | None]) -> float | None:
    """Returns the sum; None if one value is unknown, or there is none."""
    total: float | None = None
    for value in values:
        if value is None:
            return None
        total = value if total is None else total + value
    return total
