"""Where a device is in the machine: its NUMA node, the bridges above it, its NVLinks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated

from msgspec import Meta, Struct, field

from andon.model.codec import MOST_ITEMS, Name, Text, Texts

SWITCH = "switch"
"""The other end of an NVLink that goes to an NVSwitch, which connects all devices on it."""
NOT_REQUESTED = "not asked for"
MOST_NODE = 65_535
MOST_BRIDGES = 64
MOST_CPUS = 65_536
Bridges = Annotated[tuple[Name, ...], Meta(max_length=MOST_BRIDGES)]
Counts = Annotated[
    Mapping[Name, Annotated[int, Meta(ge=0, le=MOST_ITEMS)]], Meta(max_length=MOST_ITEMS)
]


class DevicePlace(Struct, frozen=True):
    """Static; None means unknown, and the reason is in `missing`."""

    numa_node: Annotated[int, Meta(ge=0, le=MOST_NODE)] | None = None
    cpus: Text | None = None  # those next to it, as the kernel lists them: 0-31,64-95
    bridges: Bridges = ()  # the PCI bridges above it, from the root
    nvlinks: Counts = field(default_factory=dict)
    """PCI address of the other end, or `switch` → number of active links."""
    ancestors: Counts = field(default_factory=dict)
    """PCI address of another device → NVML's level of what both have in common."""
    source: Name = ""  # who said so: `sysfs`, `nvml, sysfs`
    missing: Texts = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.numa_node, self.cpus, self.bridges, self.source))


NO_PLACE = DevicePlace(missing={"place": NOT_REQUESTED})


def parse_cpus(text: str) -> frozenset[int]:
    """Parses `0-3,8` as the kernel writes it; what is no CPU number is left out."""
    out: set[int] = set()
    for part in text.strip().split(","):
        low, _, high = part.strip().partition("-")
        if low.isdecimal() and (high or low).isdecimal():
            first, last = int(low), int(high or low)
            if first <= last < MOST_CPUS:
                out.update(range(first, last + 1))
    return frozenset(out)


def cpu_list(cpus: Collection[int]) -> str:
    """Returns `0-3,8`."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
