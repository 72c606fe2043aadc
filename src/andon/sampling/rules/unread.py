"""What could not be read on a node, for programs: its readers' faults and its silent devices."""

from msgspec.structs import asdict

from andon.model import wire
from andon.model.device import Fault, FaultCode, Snapshot, State
from andon.model.naming import device_labels, title


def faults_of(snapshot: Snapshot) -> list[wire.Json]:
    """Returns the snapshot's faults, and one for each device that is lost or does not answer."""
    return [asdict(fault) for fault in (*snapshot.faults, *_silent(snapshot))]


def why_none_is_read(snapshot: Snapshot) -> Fault | None:
    """Returns why no device could be read; None if one was, or if the node has none to be read."""
    if any(status.answered or status.state is State.ASLEEP for status in snapshot.devices):
        return None
    return next((f for f in (*snapshot.faults, *_silent(snapshot)) if _is_failure(f)), None)


def _is_failure(fault: Fault) -> bool:
    """Whether a fault is a failure: the mere absence of a card, driver or device file is none."""
    if fault.code in (FaultCode.NO_DRIVER, FaultCode.NO_DEVICE):
        return bool(fault.cards) and not (fault.container and fault.device_files is False)
    return fault.source not in ("macOS", "Windows")  # as in drivers/shared/presence.py


def _silent(snapshot: Snapshot) -> list[Fault]:
    labels = device_labels(snapshot.devices)
    return [
        Fault(title(labels[one.device.uuid]), one.reason or "", one.hint or "", one.state)
        for one in snapshot.devices
        if one.state in (State.LOST, State.STALE)
    ]
