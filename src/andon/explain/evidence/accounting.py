"""What "unattributed memory" means: memory in use by no visible process, beyond driver overhead."""

from andon.model.device import Device, DeviceStatus, MemoryKind
from andon.units import GIB, MIB

LEAST_BYTES = GIB // 2  # less than this, or than 2 % of the device, is driver overhead
LEAST_SHARE = 0.02
CONTEXT_BYTES = 256 * MIB  # what a process may use without it being attributed


def owns_memory(device: Device, divided: bool) -> bool:
    """Whether the memory is the device's alone: neither the system's nor that of its instances."""
    return device.memory_kind is MemoryKind.DEVICE and not divided


def least_unattributed_bytes(total_bytes: int | None, processes: int) -> float:
    """How much of it is driver overhead."""
    return max(LEAST_BYTES, LEAST_SHARE * (total_bytes or 0), CONTEXT_BYTES * processes)


def unattributed_bytes(status: DeviceStatus, divided: bool = False) -> int | None:
    """The unattributed memory of a device; 0 if there is no more than driver overhead.

    None if it is unknown, or if the memory is not the device's alone. `divided` is a board that is
    used through its instances.
    """
    spare = status.memory_unattributed_bytes if status.answered else None
    if spare is None or not owns_memory(status.device, divided):
        return None
    least = least_unattributed_bytes(status.device.memory_total_bytes, len(status.processes))
    return spare if spare > least else 0
