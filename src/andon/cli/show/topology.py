"""How devices are linked: a matrix with a legend, and groups as text."""

from collections.abc import Mapping, Sequence

from andon.cli.show.entries import unreal
from andon.cli.show.text import Text, styled, with_mark
from andon.model.device import Device, Snapshot
from andon.model.links import DeviceLink, LinkKind, all_links, boards_of, linked_groups
from andon.model.naming import device_labels, title

GAP = 2
SHOWN = ("place", "numa_node", "cpus")
CODES = {
    LinkKind.NVLINK: "NV",
    LinkKind.BOARD: "PIX",
    LinkKind.PCIE_SWITCH: "PXB",
    LinkKind.HOST_BRIDGE: "PHB",
    LinkKind.NUMA_NODE: "NODE",
    LinkKind.SYSTEM: "SYS",
    LinkKind.UNKNOWN: "?",
}
LEGEND = {
    LinkKind.NVLINK: "NV#   NVLink, and how many links",
    LinkKind.BOARD: "PIX   one card",
    LinkKind.PCIE_SWITCH: "PXB   one or more PCIe switches",
    LinkKind.HOST_BRIDGE: "PHB   the PCIe host bridge of a CPU",
    LinkKind.NUMA_NODE: "NODE  several host bridges of one NUMA node",
    LinkKind.SYSTEM: "SYS   the connection between NUMA nodes",
    LinkKind.UNKNOWN: "?     unknown",
}
STYLES = {LinkKind.NVLINK: "green", LinkKind.SYSTEM: "yellow", LinkKind.UNKNOWN: "dim"}
GROUPS = {
    LinkKind.NVLINK: "NVLink",
    LinkKind.BOARD: "one card",
    LinkKind.PCIE_SWITCH: "PCIe switch",
    LinkKind.NUMA_NODE: "one NUMA node",
}


def render_topology(snapshot: Snapshot, width: int) -> list[Text]:
    """The matrix, what its codes mean, the groups, and why something is unknown."""
    devices, labels = boards_of(snapshot), device_labels(snapshot.devices)
    links = all_links(devices)
    lines = with_mark([styled(snapshot.node, "bold")], unreal(snapshot), width)
    lines += [Text(), *_matrix(devices, links, labels, width), Text()]
    shown = {link.kind for link in links.values()}
    lines += [styled(text, "dim") for kind, text in LEGEND.items() if kind in shown]
    lines += [Text()] if shown else []
    lines += [styled(text) for text in group_lines(devices, labels)]
    lines += [styled(text, "yellow") for text in _unknown(devices, links, labels)]
    while lines and not lines[-1].plain:
        lines.pop()
    return [line.fit(width) for line in lines]


def _matrix(
    devices: Sequence[Device],
    links: Mapping[tuple[str, str], DeviceLink],
    labels: Mapping[str, str],
    width: int,
) -> list[Text]:
    """The matrix in blocks of as many columns as fit; NUMA and CPUs are in the last block."""
    names = {device.uuid: title(labels[device.uuid]) for device in devices}
    size = max(map(len, names.values()), default=0)
    tail = 2 * GAP + len("NUMA") + max((len(one.place.cpus or "?") for one in devices), default=0)
    count = max(1, (width - size - max(tail, 2 * GAP + len("NUMACPUS"))) // (size + GAP))
    rows: list[Text] = []
    for place in range(0, len(devices), count):
        shown, last = devices[place : place + count], place + count >= len(devices)
        head = styled("".ljust(size))
        for one in shown:
            head = head + styled(" " * GAP + names[one.uuid].rjust(size), "dim")
        gap = [Text()] if place else []
        rows += [*gap, head + styled("  NUMA  CPUS", "dim") if last else head]
        for one in devices:
            row = styled(names[one.uuid].ljust(size), "bold")
            for other in shown:
                row = row + styled(" " * GAP) + _cell(links.get((one.uuid, other.uuid)), size)
            rows.append(row + _beside(one) if last else row)
    return rows


def _beside(device: Device) -> Text:
    """Its NUMA node and the CPUs next to it."""
    node = "?" if device.place.numa_node is None else str(device.place.numa_node)
    return styled(" " * GAP + node.rjust(4)) + styled(" " * GAP + (device.place.cpus or "?"))


def _cell(link: DeviceLink | None, size: int) -> Text:
    if link is None:
        return styled("X".rjust(size), "dim")
    lanes = str(link.lanes) if link.kind is LinkKind.NVLINK else ""
    return styled(f"{CODES[link.kind]}{lanes}".rjust(size), STYLES.get(link.kind, ""))


def group_lines(devices: Sequence[Device], labels: Mapping[str, str]) -> list[str]:
    """`NVLink: GPU 0, 1`, then each NUMA node with its devices."""
    lines = [
        f"{GROUPS[group.kind]}: {_names(group.uuids, labels)}"
        for group in linked_groups(devices)
        if group.kind is not LinkKind.NUMA_NODE
    ]
    nodes: dict[int, list[str]] = {}
    for device in devices:
        if device.place.numa_node is not None:
            nodes.setdefault(device.place.numa_node, []).append(device.uuid)
    return lines + [f"NUMA node {node}: {_names(nodes[node], labels)}" for node in sorted(nodes)]


def _names(uuids: Sequence[str], labels: Mapping[str, str]) -> str:
    return title(", ".join(labels[uuid] for uuid in uuids))


def _unknown(
    devices: Sequence[Device],
    links: Mapping[tuple[str, str], DeviceLink],
    labels: Mapping[str, str],
) -> list[str]:
    """Each reason why something shown is unknown, with the devices that it holds for."""
    unlinked = {one for (one, _), link in links.items() if link.kind is LinkKind.UNKNOWN}
    reasons: dict[str, list[str]] = {}
    for device in devices:
        for what, why in device.place.missing.items():
            needed = device.uuid in unlinked if what == "bridges" else what in SHOWN
            if needed:
                reasons.setdefault(why, []).append(device.uuid)
    return [
        f"unknown for {_names(list(dict.fromkeys(uuids)), labels)}: {why}"
        for why, uuids in reasons.items()
    ]
