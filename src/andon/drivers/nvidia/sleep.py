"""Which NVIDIA cards sleep and which may, read without waking one.

An open NVML session keeps a laptop's card awake and drains its battery. The kernel's files under
/sys can be read without waking a card.
"""

import re
from pathlib import Path

from andon.drivers.shared.sysfs import Tree
from andon.model.device import Card

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def bound_cards(root: Path) -> list[Card]:
    """The cards bound to the nvidia kernel module, in PCI order, which is NVML's order."""
    folder = root / "sys/bus/pci/drivers/nvidia"
    try:
        found = sorted(p.name for p in folder.iterdir() if _ADDRESS.fullmatch(p.name))
    except OSError:
        return []
    return [Card(pci, index, pci, "NVIDIA GPU") for index, pci in enumerate(found)]


def is_suspended(root: Path, pci: str) -> bool:
    return _device(root, pci).text("power/runtime_status").value == "suspended"


def may_suspend(root: Path, pci: str) -> bool:
    """Whether the system lets this card sleep at all; cards in servers never do."""
    if _device(root, pci).text("power/control").value != "auto":
        return False
    power = Tree(root).text(f"proc/driver/nvidia/gpus/{pci}/power").value or ""
    return (
        "Runtime D3 status:" not in power or "Enabled" in power.split("Runtime D3 status:")[1][:40]
    )


def _device(root: Path, pci: str) -> Tree:
    return Tree(root).below(f"sys/bus/pci/drivers/nvidia/{pci}")
