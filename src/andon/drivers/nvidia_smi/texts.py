"""Parses nvidia-smi's values: a number with its unit, or one of its many texts for unknown."""

import re
from typing import Final, TypeAlias

from msgspec import Struct

from andon.units import MIB, printable


class Unknown(Struct, frozen=True):
    """A value that is not known, and why; `absent` when the device never has it."""

    reason: str
    absent: bool = False


Value: TypeAlias = int | float | tuple[str, ...] | Unknown

NOT_REPORTED: Final = Unknown("not reported by nvidia-smi")
_ABSENT: Final = {"n/a", "not supported", "not available"}
_LOST: Final = {
    "gpu is lost": "it has fallen off the bus",
    "gpu requires reset": "it needs a reset before it can be used again",
}
_FLAGS: Final = {"Enabled": True, "Disabled": False}
_SHOWN_CHARACTERS: Final = 60
_NUMBER: Final = re.compile(r"P?(-?[0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z%/]*)")


class Measure(Struct, frozen=True):
    """How a value is written, and its valid range."""

    unit: str = ""
    whole: bool = True
    scale: int = 1
    least: int = 0
    most: int | None = None


_PERCENT: Final = Measure("%", most=100)
_MEMORY: Final = Measure("MiB", scale=MIB)
_CELSIUS: Final = Measure("C", least=-273, most=1000)
_WATTS: Final = Measure("W", whole=False)
_MHZ: Final = Measure("MHz")
_TRAFFIC: Final = Measure("KB/s", scale=1000)
COUNT: Final = Measure()
MEASURES: Final = {
    "utilization_percent": _PERCENT,
    "memory_utilization_percent": _PERCENT,
    "memory_total_bytes": _MEMORY,
    "memory_used_bytes": _MEMORY,
    "memory_free_bytes": _MEMORY,
    "memory_reserved_bytes": _MEMORY,
    "memory_bytes": _MEMORY,
    "temperature_celsius": _CELSIUS,
    "memory_temperature_celsius": _CELSIUS,
    "slowdown_celsius": _CELSIUS,
    "power_watts": _WATTS,
    "power_limit_watts": _WATTS,
    "power_default_watts": _WATTS,
    "fan_percent": _PERCENT,
    "sm_clock_mhz": _MHZ,
    "memory_clock_mhz": _MHZ,
    "encoder_percent": _PERCENT,
    "decoder_percent": _PERCENT,
    "pcie_generation": COUNT,
    "pcie_width": Measure("x"),
    "pcie_received_bytes_per_second": _TRAFFIC,
    "pcie_sent_bytes_per_second": _TRAFFIC,
    "ecc_uncorrected": COUNT,
    "performance_state": Measure(most=15),
}
"""The numeric values, by their names in the model."""


def read(name: str, text: str | None) -> int | float | Unknown:
    """A value of the model from nvidia-smi's text; None if this version does not print it."""
    return NOT_REPORTED if text is None else number(text, MEASURES[name])


def number(text: str, measure: Measure) -> int | float | Unknown:
    """Parses a number, with or without its unit."""
    found = _NUMBER.fullmatch(text.strip())
    if found is None or found[2] not in ("", measure.unit):
        return unknown(text)
    value = float(found[1])
    if value < measure.least or (measure.most is not None and value > measure.most):
        return Unknown(f"{_quoted(text)}, which is impossible")
    return round(value) * measure.scale if measure.whole else value * measure.scale


def flag(text: str | None) -> bool | Unknown:
    """Parses `Enabled` or `Disabled`; unknown if this version does not print it."""
    if text is None:
        return NOT_REPORTED
    return _FLAGS[text] if text in _FLAGS else unknown(text)


def unknown(text: str) -> Unknown:
    """Returns an unknown value: `[N/A]`, `ERR!` or nothing; the text is the reason."""
    return Unknown(_quoted(text), absent=_bare(text) in _ABSENT)


def is_text(text: str | None) -> bool:
    """Whether it is a name or an address, and not one of the texts for unknown."""
    return bool(text and text.strip()) and not _is_odd(_bare(text or ""))


def lost(text: str) -> str | None:
    """Returns why the whole device is lost, if nvidia-smi prints that in place of a value."""
    bare = _bare(text)
    return next((why for text, why in _LOST.items() if bare.startswith(text)), None)


def may_be_lost(text: str) -> bool:
    """Whether one of several texts may say that the device is lost."""
    return any(sign in text.lower() for sign in _LOST)


def pci_address(text: str | None) -> str | None:
    """Returns the address in the kernel's format: four digits of domain, lower case."""
    found = re.fullmatch(
        r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", (text or "").strip().lower()
    )
    return f"{int(found[1], 16):04x}:{found[2]}" if found else None


def plain(text: str) -> str:
    """Returns the text as one short printable line."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[: _SHOWN_CHARACTERS - 1]}…"


def _quoted(text: str) -> str:
    shown = plain(text)
    return f'nvidia-smi says "{shown}"' if shown else "nvidia-smi printed nothing"


def _is_odd(bare: str) -> bool:
    failures = ("unknown error", "err!", "insufficient permissions", "requested functionality")
    return bare in _ABSENT or bare.startswith((*failures, *_LOST))


def _bare(text: str) -> str:
    return text.strip().removeprefix("[").removesuffix("]").strip().lower()
