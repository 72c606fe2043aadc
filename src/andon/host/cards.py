"""The known vendors' cards as the kernel lists them, also where a driver cannot be read."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from andon.host.files import names_in, read_text
from andon.host.own_container import container_kind, read_mounts
from andon.model.device import Fault
from andon.model.vendors import GIVEN_AWAY, VENDORS, VendorRow, vendor_of_backend

BUS = "sys/bus/pci/devices"
_BY_PCI_ID = {vendor.pci_id: vendor for vendor in VENDORS}


def card_folders(root: Path) -> Iterator[tuple[Path, VendorRow]]:
    """The folder and the vendor of each card; a virtual function belongs to a virtual machine."""
    for name in names_in(root / BUS):
        folder = root / BUS / name
        vendor = _BY_PCI_ID.get(read_text(folder / "vendor").strip())
        if vendor is None or read_text(folder / "class").strip()[:4] not in vendor.pci_classes:
            continue
        if not (folder / "physfn").is_symlink():
            yield folder, vendor


def driver_of(folder: Path) -> str | None:
    """Returns the kernel driver that is bound to a card."""
    try:
        return (folder / "driver").readlink().name
    except OSError:
        return None


def device_minors(root: Path) -> dict[str, int]:
    """Returns the numbers of NVIDIA's device files by PCI address; empty without its driver."""
    folder, found = root / "proc/driver/nvidia/gpus", dict[str, int]()
    for pci in names_in(folder, 256):
        for line in read_text(folder / pci / "information").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "Device Minor" and value.strip().isdigit():
                found[pci.lower()] = int(value)
    return found


# What the system itself shows of a vendor's cards when its driver cannot be read.
#
# The files are the ones that `andon doctor` reads; no device is opened, and none wakes.


def with_surroundings(
    fault: Fault, root: Path, own: Path = Path("/"), env: Mapping[str, str] = os.environ
) -> Fault:
    """Returns the fault with what is known of the vendor's cards, on the machine and for this
    process."""
    vendor = vendor_of_backend(fault.source)
    if not vendor.pci_id:
        return fault  # a recording, or a backend of a third party
    cards, files = count_cards(vendor, root), has_device_files(vendor, own)
    matters = cards != 0 and not files
    inside = _container(own, env) if matters else None
    return replace(fault, cards=cards, device_files=files, container=inside)


def count_cards(vendor: VendorRow, root: Path) -> int | None:
    """Counts the cards on the PCI bus or in the driver's own list; None if neither is known."""
    listed = [folder for folder, owner in card_folders(root) if owner is vendor]
    mine = sum(driver_of(folder) not in GIVEN_AWAY for folder in listed)
    by_driver = len(names_in(root / vendor.card_folder)) if vendor.card_folder else 0
    if mine or by_driver or listed:  # without any, all of them belong to virtual machines
        return max(mine, by_driver)
    off_bus = any((root / sign).exists() for sign in vendor.off_bus_signs)
    return 0 if not off_bus and names_in(root / BUS, 1) else None


def has_device_files(vendor: VendorRow, own: Path) -> bool:
    patterns = vendor.device_files.split()
    return any(True for pattern in patterns for _ in own.glob(pattern.lstrip("/")))


def _container(own: Path, env: Mapping[str, str]) -> str:
    return container_kind(own, env, read_mounts(own))
