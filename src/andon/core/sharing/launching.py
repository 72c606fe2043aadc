"""The environment variables that make a process see only the devices assigned to it."""

from collections.abc import Sequence

from andon.core.sampling.masks import in_pci_order
from andon.model.device import Device

LEASE_VARIABLE = "ANDON_LEASE"
ORDER = ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
INTEL_ORDER = {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"}  # else discrete cards come first
NO_INTEL = "9999"  # an empty mask hides nothing; a number without a device hides all
NO_DEVICE = {
    "CUDA_VISIBLE_DEVICES": "",
    "ROCR_VISIBLE_DEVICES": "-1",
    "HIP_VISIBLE_DEVICES": "-1",
    "ZE_AFFINITY_MASK": NO_INTEL,
}
"""Hides the devices of every vendor."""


def environment(
    chosen: Sequence[Device], everyone: Sequence[Device], lease: str | None = None
) -> dict[str, str]:
    """Variables for the chosen devices, and empty masks for every other vendor on the node."""
    out: dict[str, str] = {ORDER[0]: ORDER[1]} if _uses_cuda(chosen, everyone) else {}
    if _uses_cuda(chosen, everyone):
        out["CUDA_VISIBLE_DEVICES"] = ",".join(
            device.uuid for device in chosen if device.vendor in ("nvidia", "sim")
        )
    if any(device.vendor == "amd" for device in everyone):
        out |= _amd([d for d in chosen if d.vendor == "amd"], everyone)
    if any(device.vendor == "intel" for device in everyone):
        mask = _numbers([d for d in chosen if d.vendor == "intel"], everyone)
        out |= {"ZE_AFFINITY_MASK": mask or NO_INTEL, **INTEL_ORDER}
    if lease is not None:
        out[LEASE_VARIABLE] = lease
    return out


def _uses_cuda(chosen: Sequence[Device], everyone: Sequence[Device]) -> bool:
    """A node with no devices gets CUDA's empty mask: one may be added later."""
    vendors = {device.vendor for device in everyone}
    return not vendors or bool(vendors & {"nvidia", "sim"})


def _amd(chosen: Sequence[Device], everyone: Sequence[Device]) -> dict[str, str]:
    """ROCR filters first; HIP counts the rest from 0, and without a mask would read CUDA's."""
    return {
        "ROCR_VISIBLE_DEVICES": _rocr(chosen, everyone) or "-1",
        "HIP_VISIBLE_DEVICES": ",".join(str(number) for number in range(len(chosen))) or "-1",
    }


def _rocr(chosen: Sequence[Device], everyone: Sequence[Device]) -> str:
    """By unique id where every card has one (`GPU-<16 digits>`), else by position."""
    if all(device.uuid.startswith("AMD-") for device in chosen):
        return ",".join(f"GPU-{device.uuid.removeprefix('AMD-')}" for device in chosen)
    return _numbers(chosen, everyone)


def _numbers(chosen: Sequence[Device], everyone: Sequence[Device]) -> str:
    """Positions among the vendor's devices in PCI order, which is how its runtime counts."""
    vendor = chosen[0].vendor if chosen else None
    order = [d.uuid for d in in_pci_order(d for d in everyone if d.vendor == vendor)]
    return ",".join(str(order.index(device.uuid)) for device in chosen)
