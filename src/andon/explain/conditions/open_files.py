"""Finds out who has a device open by its vendor's files, also if the driver lists no process."""

from andon.explain.evidence.view import View
from andon.model.device import Device
from andon.model.vendors import VENDORS, vendor_of

_ANY = "; ".join(f"sudo fuser -v {vendor.device_files} ({vendor.title})" for vendor in VENDORS)
FIND_WHO = f"Find out who has it open: {_ANY}"
"""Where it is not known which device it is: on a page, in a file of rules."""


def openers_of(device: Device) -> str:
    """The command that lists every process that has this device open."""
    return f"sudo fuser -v {vendor_of(device.vendor).device_files}"


def find_who(view: View) -> str:
    """How to find out who has a device open."""
    return f"Find out who has it open: {openers_of(view.device)}"
