"""How a card is linked with the others, according to NVML; read once for each card."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from andon.drivers.nvidia import nvml
from andon.drivers.nvidia.card import NvidiaCard
from andon.drivers.nvidia.nvml import Handle
from andon.drivers.nvidia.trouble import survivable
from andon.model.place import DevicePlace, cpu_list

T = TypeVar("T")


def with_links(board: NvidiaCard, others: Sequence[NvidiaCard], place: DevicePlace) -> DevicePlace:
    """Returns the place with the card's NVLinks and the common ancestor with each of the others.
    NUMA node and CPUs come from NVML if the kernel does not list them."""
    missing = dict(place.missing)
    links = _value(nvml.nvlinks, board.handle, missing, "nvlinks")
    ancestors: dict[str, int] = {}
    for other in others:
        if other.device.pci is not None:
            level = _value(_with(other.handle), board.handle, missing, "ancestors")
            if level is not None:
                ancestors[other.device.pci] = level
    node, cpus = place.numa_node, place.cpus
    if node is None:
        nodes = _value(nvml.near_nodes, board.handle, {}, "numa_node")
        node = min(nodes) if nodes else None
    if cpus is None:
        near = _value(nvml.near_cpus, board.handle, {}, "cpus")
        cpus = cpu_list(near) if near else None
    for name, value in (("numa_node", node), ("cpus", cpus)):
        if value is not None:
            missing.pop(name, None)
    from_nvml = links is not None or ancestors or (node, cpus) != (place.numa_node, place.cpus)
    source = ", ".join(one for one in ("nvml" if from_nvml else "", place.source) if one)
    return replace(
        place,
        numa_node=node,
        cpus=cpus,
        nvlinks=links or {},
        ancestors=ancestors,
        source=source,
        missing=missing,
    )


def _with(other: Handle) -> Callable[[Handle], int]:
    return lambda handle: nvml.common_ancestor(handle, other)


def _value(
    read: Callable[[Handle], T], handle: Handle, missing: dict[str, str], name: str
) -> T | None:
    try:
        found = read(handle)
    except nvml.Error as error:
        missing[name] = survivable(error).reason
        return None
    missing.pop(name, None)
    return found
