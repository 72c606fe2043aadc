"""How two devices are linked, from what is known of the place of each, and its JSON."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import combinations
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from andon.model.codec import Json, Name, read
from andon.model.device import Device, Snapshot
from andon.model.naming import device_labels
from andon.model.place import SWITCH, DevicePlace
from andon.model.shapes import to_json

# How two devices are linked, from what is known of the place of each.


class LinkKind(StrEnum):
    """The best path between two devices, the closest first."""

    NVLINK = "nvlink"
    BOARD = "board"  # two chips of one card
    PCIE_SWITCH = "pcie_switch"
    HOST_BRIDGE = "host_bridge"
    NUMA_NODE = "numa_node"
    SYSTEM = "system"  # across NUMA nodes
    UNKNOWN = "unknown"


CLOSENESS = {
    LinkKind.NVLINK: 1.0,
    LinkKind.BOARD: 0.8,
    LinkKind.PCIE_SWITCH: 0.6,
    LinkKind.HOST_BRIDGE: 0.4,
    LinkKind.NUMA_NODE: 0.3,
    LinkKind.SYSTEM: 0.0,
    LinkKind.UNKNOWN: 0.0,
}
"""How much a link is worth when devices are chosen together."""
FEWER_LANES = 0.1  # what the number of NVLinks may take away
_LINK_TEXTS = {
    LinkKind.NVLINK: "NVLink",
    LinkKind.BOARD: "one card",
    LinkKind.PCIE_SWITCH: "a PCIe switch",
    LinkKind.HOST_BRIDGE: "a PCIe host bridge",
    LinkKind.NUMA_NODE: "one NUMA node",
    LinkKind.SYSTEM: "the connection between NUMA nodes",
    LinkKind.UNKNOWN: "an unknown way",
}
_LEVELS = {
    0: LinkKind.BOARD,
    10: LinkKind.PCIE_SWITCH,
    20: LinkKind.PCIE_SWITCH,
    30: LinkKind.HOST_BRIDGE,
    40: LinkKind.NUMA_NODE,
    50: LinkKind.SYSTEM,
}
"""NVML's levels of a common ancestor."""


class DeviceLink(Struct, frozen=True):
    """The path between two devices; `lanes` is the number of NVLinks."""

    kind: LinkKind
    lanes: int = 0

    @property
    def closeness(self) -> float:
        if self.kind is not LinkKind.NVLINK:
            return CLOSENESS[self.kind]
        return CLOSENESS[self.kind] - FEWER_LANES / max(1, self.lanes)


def link_between(one: Device, other: Device) -> DeviceLink:
    """Returns the best known path; the same in both directions."""
    lanes = _nvlinks(one, other)
    if lanes:
        return DeviceLink(LinkKind.NVLINK, lanes)
    level = _level(one, other)
    if level is not None:
        return DeviceLink(level)
    return DeviceLink(_by_bridges(one, other))


def _nvlinks(one: Device, other: Device) -> int:
    """Returns how many links connect the two directly, or both with the same NVSwitches."""
    direct = max(
        one.place.nvlinks.get(other.pci or "", 0), other.place.nvlinks.get(one.pci or "", 0)
    )
    through = min(one.place.nvlinks.get(SWITCH, 0), other.place.nvlinks.get(SWITCH, 0))
    return direct or through


def _level(one: Device, other: Device) -> LinkKind | None:
    """Returns the link that the driver reported; each pair was queried once, in either order."""
    found = one.place.ancestors.get(other.pci or "", other.place.ancestors.get(one.pci or ""))
    return None if found is None else _LEVELS.get(found)


def _by_bridges(one: Device, other: Device) -> LinkKind:
    """Returns the link by the kernel's tree: devices with a common bridge share a switch; with only
    a common root, a host bridge."""
    if not one.place.bridges or not other.place.bridges:
        return LinkKind.UNKNOWN
    shared = 0
    for mine, theirs in zip(one.place.bridges, other.place.bridges, strict=False):
        if mine != theirs:
            break
        shared += 1
    if shared > 1:
        return LinkKind.PCIE_SWITCH
    if shared == 1:
        return LinkKind.HOST_BRIDGE
    same = one.place.numa_node == other.place.numa_node
    return LinkKind.NUMA_NODE if same else LinkKind.SYSTEM


class LinkedGroup(Struct, frozen=True):
    """Devices that are all linked with each other in the same way."""

    kind: LinkKind
    uuids: tuple[str, ...]


def linked_groups(devices: Sequence[Device]) -> list[LinkedGroup]:
    """Returns, for each kind of link, the groups within which every pair is at least that close; a
    group that another kind has joined already is left out."""
    links = all_links(devices)
    out: list[LinkedGroup] = []
    for kind in (LinkKind.NVLINK, LinkKind.BOARD, LinkKind.PCIE_SWITCH, LinkKind.NUMA_NODE):
        for uuids in _cliques(devices, links, CLOSENESS[kind] - FEWER_LANES):
            if len(uuids) > 1 and not any(set(uuids) <= set(one.uuids) for one in out):
                out.append(LinkedGroup(kind, uuids))
    return out


def _cliques(
    devices: Sequence[Device], links: Mapping[tuple[str, str], DeviceLink], least: float
) -> list[tuple[str, ...]]:
    """Returns groups, found greedily: each device joins the first group that it fits into."""
    groups: list[list[str]] = []
    for device in devices:
        for group in groups:
            if all(links[device.uuid, other].closeness >= least for other in group):
                group.append(device.uuid)
                break
        else:
            groups.append([device.uuid])
    return [tuple(group) for group in groups]


def all_links(devices: Sequence[Device]) -> dict[tuple[str, str], DeviceLink]:
    """Returns every pair, in both orders."""
    out: dict[tuple[str, str], DeviceLink] = {}
    for one, other in combinations(devices, 2):
        link = link_between(one, other)
        out[one.uuid, other.uuid] = out[other.uuid, one.uuid] = link
    return out


def group_links_text(devices: Sequence[Device]) -> str | None:
    """Returns what links these devices, the weakest of their links; None if nothing is known."""
    links = [link_between(one, other) for one, other in combinations(devices, 2)]
    if not links or all(link.kind is LinkKind.UNKNOWN for link in links):
        return None
    weakest = min(links, key=lambda link: link.closeness)
    if weakest.kind is LinkKind.NVLINK:
        count = f" ({weakest.lanes} links)" if weakest.lanes > 1 else ""
        return f"linked by NVLink{count}"
    return f"linked by {_LINK_TEXTS[weakest.kind]}"


# JSON of how devices are linked, and the places of a server's devices read back from it.

TOPOLOGY = "andon.topology/1"


def boards_of(snapshot: Snapshot) -> list[Device]:
    """Returns the boards; partitions are where their boards are."""
    return [one.device for one in snapshot.devices if one.device.parent is None]


def topology_to_json(snapshot: Snapshot) -> dict[str, Any]:
    devices, labels = boards_of(snapshot), device_labels(snapshot.devices)
    links = all_links(devices)
    return {
        "schema": TOPOLOGY,
        "node": snapshot.node,
        "at": snapshot.at,
        "simulated": snapshot.simulated,
        "devices": [
            {
                "uuid": device.uuid,
                "label": labels[device.uuid],
                "pci": device.pci,
                **to_json(device.place),
            }
            for device in devices
        ],
        "links": [
            {"from": one, "to": other, "kind": str(link.kind), "lanes": link.lanes}
            for (one, other), link in links.items()
        ],
        "groups": [
            {"kind": str(group.kind), "devices": list(group.uuids)}
            for group in linked_groups(devices)
        ],
    }


def with_places(snapshot: Snapshot, topology: Json) -> Snapshot:
    """Returns the devices with the places in andon.topology/1; raises Wrong for anything else."""
    listed = read(list[Json], topology.get("devices"))
    places = {read(_Named, one).uuid: read(DevicePlace, one) for one in listed}
    return replace(
        snapshot,
        devices=tuple(
            replace(one, device=replace(one.device, place=places[one.device.uuid]))
            if one.device.uuid in places
            else one
            for one in snapshot.devices
        ),
    )


class _Named(Struct, frozen=True):
    uuid: Name
