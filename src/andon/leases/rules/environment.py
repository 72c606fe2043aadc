"""The environment variables that make a process see only the devices assigned to it."""

from collections.abc import Sequence

from andon.model.device import Device
from andon.model.vendors import MASKED, NVIDIA, MaskEntry, MaskVariable, VendorRow
from andon.sampling.rules.masks import in_pci_order

LEASE_VARIABLE = "ANDON_LEASE"
NO_DEVICE = {mask.name: mask.hides_all for vendor in MASKED for mask in vendor.masks}
"""Hides the devices of every vendor."""
NO_GPU = "cpu"  # the label of work without a device


def environment(
    chosen: Sequence[Device], everyone: Sequence[Device], lease: str | None = None
) -> dict[str, str]:
    """Variables for the chosen devices, and empty masks for every other vendor on the node.

    A node with no devices gets CUDA's empty mask: one may be added later.
    """
    present = {device.vendor for device in everyone} or {NVIDIA.name}
    out: dict[str, str] = {}
    for vendor in MASKED:
        if vendor.name in present:
            out |= _variables(vendor, chosen, everyone)
    if lease is not None:
        out[LEASE_VARIABLE] = lease
    return out


def _variables(
    vendor: VendorRow, chosen: Sequence[Device], everyone: Sequence[Device]
) -> dict[str, str]:
    mine = [device for device in chosen if device.vendor == vendor.name]
    peers = [device for device in everyone if device.vendor == vendor.name]
    out = {mask.name: _value(vendor, mask, mine, peers) for mask in vendor.masks}
    return out if vendor.order is None else {vendor.order[0]: vendor.order[1], **out}


def _value(
    vendor: VendorRow, mask: MaskVariable, chosen: Sequence[Device], peers: Sequence[Device]
) -> str:
    if not chosen:
        return mask.hides_all
    if mask.entry is MaskEntry.UUID:
        return ",".join(device.uuid for device in chosen)
    if mask.entry is MaskEntry.RENUMBERED:
        return ",".join(str(number) for number in range(len(chosen)))
    ours, theirs = vendor.runtime_id or ("", "")
    if mask.entry is MaskEntry.RUNTIME_ID and all(d.uuid.startswith(ours) for d in chosen):
        return ",".join(f"{theirs}{device.uuid.removeprefix(ours)}" for device in chosen)
    order = [device.uuid for device in in_pci_order(peers)]
    return ",".join(str(order.index(device.uuid)) for device in chosen)
