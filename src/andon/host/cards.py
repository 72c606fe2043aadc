"""Finds the display and compute controllers of the known vendors, as the kernel lists them."""

from collections.abc import Iterator
from pathlib import Path

from andon.host.files.small import names_in, read_text
from andon.model.vendors import VENDORS, VendorRow

BUS = "sys/bus/pci/devices"
_BY_PCI_ID = {vendor.pci_id: vendor for vendor in VENDORS}


def card_folders(root: Path) -> Iterator[tuple[Path, VendorRow]]:
    """The folder and the vendor of each; a virtual function belongs to a virtual machine."""
    for name in names_in(root / BUS):
        folder = root / BUS / name
        vendor = _BY_PCI_ID.get(read_text(folder / "vendor").strip())
        if vendor is None or read_text(folder / "class").strip()[:4] not in vendor.pci_classes:
            continue
        if not (folder / "physfn").is_symlink():
            yield folder, vendor


def driver_of(folder: Path) -> str | None:
    """The kernel driver that is bound to it."""
    try:
        return (folder / "driver").readlink().name
    except OSError:
        return None
