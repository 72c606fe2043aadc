"""The meaning of each NVML error, and what to do about it."""

from enum import Enum
from typing import Final, Protocol

from msgspec import Struct

from andon.errors import AndonError, Denied, Gone, Unavailable
from andon.model.device import FaultCode


class ErrorScope(Enum):
    """How much an error affects."""

    VALUE = "this value, this time"
    FOR_GOOD = "this value, permanently"
    CARD = "the card"
    VENDOR = "all of NVML"


class DriverTrouble(Struct, frozen=True):
    reach: ErrorScope
    reason: str
    hint: str = ""
    code: FaultCode = FaultCode.DRIVER_FAILED  # where it affects all of NVML


UNINITIALIZED: Final = 1
INVALID_ARGUMENT: Final = 2
NOT_SUPPORTED: Final = 3
NO_PERMISSION: Final = 4
NOT_FOUND: Final = 6
INSUFFICIENT_SIZE: Final = 7
TIMEOUT: Final = 10
FUNCTION_NOT_FOUND: Final = 13
VERSION_MISMATCH: Final = 18

_XID = "find the cause: sudo dmesg | grep -i -e xid -e nvrm"
_TABLE: Final = {
    UNINITIALIZED: DriverTrouble(
        ErrorScope.VENDOR, "the NVIDIA library was shut down", "andon is restarting it"
    ),
    NOT_SUPPORTED: DriverTrouble(ErrorScope.FOR_GOOD, "not supported by this device"),
    NO_PERMISSION: DriverTrouble(
        ErrorScope.VALUE,
        "no permission",
        "run andon as root, or give the container more privileges",
    ),
    NOT_FOUND: DriverTrouble(ErrorScope.VALUE, "the driver found no data"),
    INSUFFICIENT_SIZE: DriverTrouble(ErrorScope.VALUE, "the driver's answer was too long"),
    8: DriverTrouble(
        ErrorScope.CARD,
        "a power cable of this card is not attached properly",
        "switch the machine off and check the card's power cables",
    ),
    9: DriverTrouble(
        ErrorScope.VENDOR,
        "the NVIDIA driver is not loaded",
        "load it: sudo modprobe nvidia; if that fails, install the driver for this kernel",
        FaultCode.NO_DRIVER,
    ),
    TIMEOUT: DriverTrouble(ErrorScope.VALUE, "the driver took too long"),
    11: DriverTrouble(
        ErrorScope.CARD, "the kernel reported an interrupt problem with this card", _XID
    ),
    12: DriverTrouble(
        ErrorScope.VENDOR,
        "the NVIDIA library libnvidia-ml.so.1 was not found",
        "no NVIDIA driver is installed; inside a container, start it with --gpus all",
        FaultCode.NO_DRIVER,
    ),
    FUNCTION_NOT_FOUND: DriverTrouble(ErrorScope.FOR_GOOD, "not supported by this driver version"),
    14: DriverTrouble(ErrorScope.FOR_GOOD, "the card's infoROM is corrupted"),
    15: DriverTrouble(ErrorScope.CARD, "it has fallen off the bus", _XID),
    16: DriverTrouble(
        ErrorScope.CARD,
        "it needs a reset before it can be used again",
        "stop its jobs, then: sudo nvidia-smi --gpu-reset -i GPU, or reboot",
    ),
    17: DriverTrouble(
        ErrorScope.VENDOR,
        "the operating system blocked the driver",
        "inside a container or a Slurm step, check that its cgroup may use /dev/nvidia*",
        FaultCode.NO_PERMISSION,
    ),
    VERSION_MISMATCH: DriverTrouble(
        ErrorScope.VENDOR,
        "driver and library versions differ",
        "reboot, or reload the nvidia modules: the driver was upgraded while it was loaded",
        FaultCode.VERSION_MISMATCH,
    ),
    19: DriverTrouble(ErrorScope.VALUE, "the device is in use by another driver call"),
    20: DriverTrouble(ErrorScope.VALUE, "the driver is out of memory"),
    21: DriverTrouble(ErrorScope.VALUE, "the driver has no data yet"),
    25: DriverTrouble(ErrorScope.FOR_GOOD, "not supported by this driver version"),
    26: DriverTrouble(ErrorScope.FOR_GOOD, "not supported by this driver version"),
    27: DriverTrouble(ErrorScope.FOR_GOOD, "not supported by this device"),
    28: DriverTrouble(ErrorScope.CARD, "the driver no longer finds this GPU", _XID),
    999: DriverTrouble(ErrorScope.VALUE, "the driver reported an unknown error", _XID),
}
_AT_START: Final = {
    NO_PERMISSION: DriverTrouble(
        ErrorScope.VENDOR,
        "no permission to use the NVIDIA driver",
        "check who may open the device files: ls -l /dev/nvidiactl /dev/nvidia0",
        FaultCode.NO_PERMISSION,
    ),
    999: DriverTrouble(ErrorScope.VENDOR, "the NVIDIA driver failed to start: unknown error", _XID),
}


def trouble(code: int, starting: bool = False) -> DriverTrouble:
    """Returns the meaning of an error code; at the start every error affects all of NVML."""
    found = (_AT_START.get(code) if starting else None) or _TABLE.get(code)
    if found is None:
        found = DriverTrouble(ErrorScope.VALUE, f"the driver returned error {code}", _XID)
    if starting and found.reach is not ErrorScope.VENDOR:
        return DriverTrouble(
            ErrorScope.VENDOR, f"the NVIDIA driver did not start: {found.reason}", found.hint
        )
    return found


def as_error(code: int, found: DriverTrouble) -> AndonError:
    """Returns the error as one of andon's five kinds."""
    if code == NO_PERMISSION:
        return Denied(found.reason, found.hint, cause=found.code)
    kind = Gone if found.reach is ErrorScope.CARD else Unavailable
    return kind(found.reason, found.hint, cause=found.code)


class CodedError(Protocol):
    """The exception that NVML's library raises."""

    value: int


def survivable(error: CodedError) -> DriverTrouble:
    """The reason for a failed value; errors that affect the card or all of NVML are raised."""
    found = trouble(error.value)
    if found.reach in (ErrorScope.CARD, ErrorScope.VENDOR):
        raise as_error(error.value, found)
    return found
