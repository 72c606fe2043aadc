"""Where a device is in the machine: its NUMA node, the bridges above it, its NVLinks."""

from collections.abc import Mapping

from msgspec import Struct, field

from andon.model.json_fields import (
    MOST_ITEMS,
    NAME,
    Json,
    inside,
    names_in,
    some_text_in,
    some_whole_in,
    texts_in,
    whole_in,
)
from andon.model.shapes import to_json

SWITCH = "switch"
"""The other end of an NVLink that goes to an NVSwitch, which connects all devices on it."""
NOT_ASKED = "not asked for"
MOST_NODE = 65_535
MOST_BRIDGES = 64


class DevicePlace(Struct, frozen=True):
    """Static; None means unknown, and the reason is in `missing`."""

    numa_node: int | None = None
    cpus: str | None = None  # those next to it, as the kernel lists them: 0-31,64-95
    bridges: tuple[str, ...] = ()  # the PCI bridges above it, from the root
    nvlinks: Mapping[str, int] = field(default_factory=dict)
    """PCI address of the other end, or `switch` → number of active links."""
    ancestors: Mapping[str, int] = field(default_factory=dict)
    """PCI address of another device → NVML's level of what both have in common."""
    source: str = ""  # who said so: `sysfs`, `nvml, sysfs`
    missing: Mapping[str, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.numa_node, self.cpus, self.bridges, self.source))


NO_PLACE = DevicePlace(missing={"place": NOT_ASKED})


def place_to_json(place: DevicePlace) -> dict[str, object]:
    found: dict[str, object] = to_json(place)
    return found


def place_from_json(value: Json) -> DevicePlace:
    return DevicePlace(
        numa_node=some_whole_in(value, "numa_node", MOST_NODE),
        cpus=some_text_in(value, "cpus"),
        bridges=tuple(names_in(value, "bridges", MOST_BRIDGES)),
        nvlinks=_numbers(value, "nvlinks"),
        ancestors=_numbers(value, "ancestors"),
        source=some_text_in(value, "source", NAME) or "",
        missing=texts_in(value, "missing"),
    )


def _numbers(value: Json, name: str) -> dict[str, int]:
    found = inside(value, name, lambda table: table) or {}
    return {str(one)[:NAME]: whole_in(found, one, MOST_ITEMS) for one in found}
