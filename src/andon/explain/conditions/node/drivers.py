"""Whether a vendor's cards are present but cannot be read; used by conditions and `health`."""

from typing import NamedTuple

from andon.explain.evidence.reasons import Evidence
from andon.model.device import SAMPLER, DeviceStatus, Fault, FaultCode, Snapshot, State
from andon.model.vendors import vendor_of_backend

_SIGNIFICANT = frozenset(
    {
        FaultCode.VERSION_MISMATCH, FaultCode.NO_PERMISSION, FaultCode.NOT_RESPONDING,
        FaultCode.READER_ENDED,
    }
)  # fmt: skip
"""Only a driver that is here fails in these ways, whatever the system shows of its cards."""


class UnreadableDriver(NamedTuple):
    """Why a driver cannot be read, and what else can."""

    fault: Fault
    others: int  # devices of other vendors that can


def cannot_be_read(fault: Fault, snapshot: Snapshot) -> bool:
    """Whether none of the vendor's cards can be read although they are present.

    Cards that do not respond are not lost: they have a condition of their own.
    """
    if fault.code == FaultCode.OTHER_BACKEND or fault.source == SAMPLER:
        return False
    known = _devices(fault, snapshot)
    if known:
        return all(status.state is State.LOST for status in known)
    return fault.code in _SIGNIFICANT if fault.cards is None else fault.cards > 0


def is_absent(fault: Fault, snapshot: Snapshot) -> bool:
    """Whether the node has no card of the vendor, so that nothing is amiss."""
    return fault.cards == 0 and not _devices(fault, snapshot)


def has_none(snapshot: Snapshot) -> bool:
    """Whether the node has no device, as far as is known: that is not the same as unreadable."""
    return not snapshot.devices and all(is_absent(fault, snapshot) for fault in snapshot.faults)


def lacks_device_files(fault: Fault) -> bool:
    """Whether andon runs in a container to which the host's cards were not given."""
    return bool(fault.container) and fault.device_files is False and bool(fault.cards)


def of_driver(fault: Fault) -> list[Evidence]:
    """Which reader failed, and what it reported."""
    return [Evidence("source", fault.source), Evidence("fault", fault.reason)]


def readable(snapshot: Snapshot) -> int:
    """How many devices can be read, or are asleep and were left alone."""
    return sum(status.state in (State.OK, State.ASLEEP) for status in snapshot.devices)


def _devices(fault: Fault, snapshot: Snapshot) -> list[DeviceStatus]:
    vendor = vendor_of_backend(fault.source).name
    return [status for status in snapshot.devices if status.device.vendor == vendor]
