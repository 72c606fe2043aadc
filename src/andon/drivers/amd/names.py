"""Name of an AMD card: from its own ROM, the system's lists, else its device id."""

from typing import Final

from andon.drivers.shared import pci
from andon.drivers.shared.sysfs import Tree

_LIST: Final = "usr/share/libdrm/amdgpu.ids"  # part of every Mesa
NAMELESS: Final = "AMD GPU"
WELL_KNOWN: Final = {
    0x66A1: "AMD Instinct MI50",
    0x738C: "AMD Instinct MI100",
    0x740C: "AMD Instinct MI250X",
    0x7408: "AMD Instinct MI250X",
    0x740F: "AMD Instinct MI210",
    0x74A0: "AMD Instinct MI300A",
    0x74A1: "AMD Instinct MI300X",
    0x74A5: "AMD Instinct MI325X",
    0x75A0: "AMD Instinct MI350X",
    0x73BF: "AMD Radeon RX 6800/6900",
    0x744C: "AMD Radeon RX 7900",
    0x747E: "AMD Radeon RX 7700/7800",
    0x7480: "AMD Radeon RX 7600",
    0x7550: "AMD Radeon RX 9070",
    0x7590: "AMD Radeon RX 9060 XT",
    0x1586: "AMD Radeon 8050S/8060S",
    0x150E: "AMD Radeon 880M/890M",
    0x15BF: "AMD Radeon 780M",
    0x1681: "AMD Radeon 680M",
    0x1638: "AMD Radeon Vega (Cezanne)",
    0x1636: "AMD Radeon Vega (Renoir)",
}
"""One device id covers several models, which differ by revision: hence the slashes."""


def name(tree: Tree, device: Tree) -> str:
    """The name from the card itself or from this system's lists."""
    own = device.text("product_name").value
    if own:
        return branded(own)
    number, revision = device.integer("device").value, device.integer("revision").value
    if number is not None and revision is not None:
        listed = parse_list(tree.text(_LIST).value or "", number, revision)
        if listed is not None:
            return listed
    return pci.name(tree, "1002", number, WELL_KNOWN, NAMELESS)


def is_nameless(found: str) -> bool:
    """Whether no name was found, and the device id is used instead."""
    return found == NAMELESS or found.startswith(f"{NAMELESS} 0x")


def branded(model: str) -> str:
    return model if "AMD" in model else f"AMD {model}"


def parse_list(text: str, device: int, revision: int) -> str | None:
    """`744C, C8, AMD Radeon RX 7900 XTX` from libdrm's list."""
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",", 2)]
        if len(parts) == 3 and (parts[0], parts[1]) == (f"{device:04X}", f"{revision:02X}"):
            return parts[2]
    return None
