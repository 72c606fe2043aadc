"""Facts of a PCI device that are the same for every vendor: address, name, link."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from andon.drivers.shared.sysfs import SysfsValue, Tree

GENERATIONS: Final = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # by GT/s
SWITCHES: Final = frozenset(
    {
        ("0x1002", "0x1478"), ("0x1002", "0x1479"),
        ("0x8086", "0x4fa0"), ("0x8086", "0x4fa1"), ("0x8086", "0x4fa4"),
        ("0x8086", "0xe2ff"), ("0x8086", "0xe2f0"), ("0x8086", "0xe2f1"),
    }
)  # fmt: skip
"""Bridges on graphics cards: the GPU's own link is not the one to the host."""

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_SPEED = re.compile(r"\s*([0-9]{1,3}(?:\.[0-9])?)\s*GT/s", re.ASCII)
_DATABASES: Final = ("usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids")


def bound(tree: Tree, drivers: Collection[str]) -> list[tuple[str, str]]:
    """Addresses of the devices bound to these drivers, each with its driver, in PCI order."""
    found = [
        (address, driver)
        for driver in drivers
        for address in tree.names(f"sys/bus/pci/drivers/{driver}")
        if _ADDRESS.fullmatch(address)
    ]
    return sorted(found)


def folder(address: str) -> str:
    return f"sys/bus/pci/devices/{address}"


class PcieLink(Struct, frozen=True):
    """The current state of a PCIe link, and its maximum."""

    generation: SysfsValue[int]
    width: SysfsValue[int]
    generation_limit: int | None
    width_limit: int | None


def link(tree: Tree, address: str) -> PcieLink:
    """Returns the link between the card and the host, beyond the switch that many cards have."""
    port = tree.at(outermost_folder(tree, address))
    return PcieLink(
        generation=parse_speed(port.text("current_link_speed")),
        width=parse_width(port.integer("current_link_width")),
        generation_limit=parse_speed(port.text("max_link_speed")).value,
        width_limit=parse_width(port.integer("max_link_width")).value,
    )


class PcieSlot(Struct, frozen=True):
    """The fastest link of a card's slot; None where that is unknown."""

    generation: int | None = None
    width: int | None = None


def slot(tree: Tree, address: str) -> PcieSlot:
    """Returns what the port above the card supports; the GPU of a processor has none."""
    above = outermost_folder(tree, address).parent
    if not _ADDRESS.fullmatch(above.name):
        return PcieSlot()
    port = tree.at(above)
    return PcieSlot(
        parse_speed(port.text("max_link_speed")).value,
        parse_width(port.integer("max_link_width")).value,
    )


def outermost_folder(tree: Tree, address: str) -> Path:
    """Returns where that port is in the tree of the kernel's devices."""
    port = tree.real(folder(address))
    while _ADDRESS.fullmatch(port.parent.name):
        above = tree.at(port.parent)
        if (above.text("vendor").value, above.text("device").value) not in SWITCHES:
            break
        port = port.parent
    return port


def parse_speed(answer: SysfsValue[str]) -> SysfsValue[int]:
    """Parses the generation of `16.0 GT/s PCIe`; a link that is down reports `Unknown`."""
    if answer.value is None:
        return SysfsValue(None, answer.reason, answer.absent)
    match = _SPEED.match(answer.value)
    generation = GENERATIONS.get(float(match[1])) if match else None
    if generation is None:
        return SysfsValue(None, f"the link's speed is {answer.value[:40]!r}")
    return SysfsValue(generation)


def parse_width(answer: SysfsValue[int]) -> SysfsValue[int]:
    if answer.value is not None and not 0 < answer.value <= 32:
        return SysfsValue(None, "the link is down")
    return answer


# Names.


def name(
    tree: Tree, vendor: str, device: int | None, known: Mapping[int, str], otherwise: str
) -> str:
    """A model's name: from the table, else from the system's list of PCI ids, else its id."""
    if device is None:
        return otherwise
    if device in known:
        return known[device]
    listed = tree.first(_DATABASES, tree.raw).value  # 1.4 MB, read once
    if listed is not None:
        found = parse_database(listed.decode("utf-8", "replace"), vendor, f"{device:04x}")
        if found is not None:
            return found
    return f"{otherwise} 0x{device:04x}"


def parse_database(text: str, vendor: str, device: str) -> str | None:
    """Finds `56a0 DG2 [Arc A770]` under the vendor's line: the product name is in brackets."""
    inside = False
    for line in text.splitlines():
        if not line or line[0] == "#":
            continue
        if line[0] != "\t":
            inside = line.startswith(f"{vendor}  ")
        elif inside and line.startswith(f"\t{device}  "):
            title = line[len(device) + 3 :].strip()
            bracketed = re.search(r"\[([^\[\]]+)\]", title)
            return bracketed[1] if bracketed else title
    return None
