"""What a run used of one device, as the last line of its record says it."""

from typing import Any, TypedDict

from andon.model.json_fields import (
    NAME,
    inside,
    number_in,
    some_text_in,
    some_whole_in,
    text_in,
    whole_in,
)
from andon.model.wire import Json

SPREADS = (
    "utilization_percent", "memory_used_bytes", "memory_percent", "memory_utilization_percent",
    "sm_active_percent", "temperature_celsius", "power_watts", "fan_percent", "sm_clock_mhz",
    "memory_clock_mhz",
)  # fmt: skip
"""The readings of which the summary of a device has a `RunSpread`."""


class RunSpread(TypedDict):
    """A reading over the whole run, each value weighted with the time that it stands for."""

    min: float | None
    max: float | None
    mean: float | None
    p95: float | None


class IdleSpells(TypedDict):
    """The spells in which nothing ran on a device."""

    count: int
    mean_seconds: float
    longest_seconds: float
    source: str  # "driver": its readings every 200 ms; "samples": those of this record


class MemoryPlateau(TypedDict):
    """The memory that a device held for most of the time."""

    bytes: int
    share: float  # of the time, 0 to 1
    since_seconds: float  # from the begin, when it was first reached


class DeviceUse(TypedDict):
    """What a run used of one device; besides these, a `RunSpread` for each of `SPREADS`.

    A reader always finds every key; what is not known is None.
    """

    index: int | None
    name: str | None
    label: str | None
    samples: int
    idle_share: float | None  # 0 to 1, of the time in which utilisation was known
    idle_spells: IdleSpells | None
    throttle_share: float | None  # 0 to 1: slowed down by power, heat or hardware
    throttle_by_cause: dict[str, float]  # reason of model.throttling → share, settings too
    peak_memory_bytes: int | None
    memory_plateau: MemoryPlateau | None
    energy_joules: float | None
    energy_source: str | None  # "counter" of the device, or "power": an estimate from the samples


def use_from_json(value: Json) -> dict[str, Any]:
    """Every key of a `DeviceUse`, and no other."""
    found = DeviceUse(
        index=some_whole_in(value, "index"),
        name=some_text_in(value, "name", NAME),
        label=some_text_in(value, "label", NAME),
        samples=some_whole_in(value, "samples") or 0,
        idle_share=number_in(value, "idle_share", 0),
        idle_spells=inside(value, "idle_spells", _spells),
        throttle_share=number_in(value, "throttle_share", 0),
        throttle_by_cause=inside(value, "throttle_by_cause", _shares) or {},
        peak_memory_bytes=some_whole_in(value, "peak_memory_bytes"),
        memory_plateau=inside(value, "memory_plateau", _plateau),
        energy_joules=number_in(value, "energy_joules", 0),
        energy_source=some_text_in(value, "energy_source", NAME),
    )
    return {
        **found,
        **{name: inside(value, name, spread_from_json) or _NO_SPREAD for name in SPREADS},
    }


def spread_from_json(value: Json) -> RunSpread:
    least, most = number_in(value, "min"), number_in(value, "max")
    return RunSpread(
        min=least, max=most, mean=number_in(value, "mean"), p95=number_in(value, "p95")
    )


_NO_SPREAD = RunSpread(min=None, max=None, mean=None, p95=None)


def _spells(value: Json) -> IdleSpells:
    return IdleSpells(
        count=whole_in(value, "count"),
        mean_seconds=number_in(value, "mean_seconds", 0) or 0.0,
        longest_seconds=number_in(value, "longest_seconds", 0) or 0.0,
        source=text_in(value, "source", NAME),
    )


def _plateau(value: Json) -> MemoryPlateau:
    return MemoryPlateau(
        bytes=whole_in(value, "bytes"),
        share=number_in(value, "share", 0) or 0.0,
        since_seconds=number_in(value, "since_seconds", 0) or 0.0,
    )


def _shares(value: Json) -> dict[str, float]:
    found = {str(name): number_in(value, name, 0) for name in value}
    return {name: share for name, share in found.items() if share is not None}
