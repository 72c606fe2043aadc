"""What the system itself shows of a vendor's cards when its driver cannot be read.

The files are the ones that `andon doctor` reads; no device is opened, and none wakes.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from andon.host.cards import BUS, card_folders, driver_of
from andon.host.files.small import names_in
from andon.model.device import Fault
from andon.model.vendors import GIVEN_AWAY, VendorRow, vendor_of_backend


def with_surroundings(
    fault: Fault, root: Path, own: Path = Path("/"), env: Mapping[str, str] = os.environ
) -> Fault:
    """The fault with what is known of the vendor's cards: under the root, and for this process."""
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
    from andon.host.own_container import container_kind, read_mounts  # needed here alone

    return container_kind(own, env, read_mounts(own))
