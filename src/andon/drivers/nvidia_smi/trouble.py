"""Translates nvidia-smi's own failures into andon's errors, with what to do about them."""

from typing import Final

from msgspec import Struct

from andon.drivers.nvidia_smi.texts import plain
from andon.errors import AndonError, Denied, Unavailable
from andon.model.device import FaultCode


class Unreadable(Unavailable):
    """Raised if nvidia-smi's output could not be parsed; the next one may be complete."""


_IN_CONTAINER = "inside a container, start it with --gpus all"


class Failure(Struct, frozen=True):
    """One kind of failure: its output, its exit codes, and what that means."""

    phrase: str
    codes: tuple[int, ...]
    reason: str
    hint: str
    code: FaultCode = FaultCode.DRIVER_FAILED
    kind: type[AndonError] = Unavailable


_FAILURES: Final = (
    Failure(
        "driver/library version mismatch",
        (18,),
        "driver and library versions differ",
        "reboot, or reload the nvidia modules: the driver was upgraded while it was loaded",
        FaultCode.VERSION_MISMATCH,
    ),
    Failure(
        "couldn't communicate with the nvidia driver",
        (9,),
        "the NVIDIA driver is not loaded",
        "load it: sudo modprobe nvidia; if that fails, install the driver for this kernel",
        FaultCode.NO_DRIVER,
    ),
    Failure(
        "driver not loaded",
        (),
        "the NVIDIA driver is not loaded",
        "load it: sudo modprobe nvidia; if that fails, install the driver for this kernel",
        FaultCode.NO_DRIVER,
    ),
    Failure(
        "no devices were found",
        (6,),
        "the NVIDIA driver is running but finds no GPU",
        f"{_IN_CONTAINER}; else check lspci and dmesg",
        FaultCode.NO_DEVICE,
    ),
    Failure(
        "insufficient permissions",
        (4,),
        "no permission to use the NVIDIA driver",
        "check who may open the device files: ls -l /dev/nvidiactl /dev/nvidia0",
        FaultCode.NO_PERMISSION,
        Denied,
    ),
    Failure(
        "couldn't find libnvidia-ml",
        (12,),
        "nvidia-smi cannot find the NVIDIA library libnvidia-ml.so",
        f"reinstall the NVIDIA driver; {_IN_CONTAINER}",
        FaultCode.NO_DRIVER,
    ),
    Failure(
        "gpu access blocked by the operating system",
        (17,),
        "the operating system blocked the driver",
        "on WSL, update the Windows driver, then: wsl --shutdown; "
        "elsewhere check that this cgroup may use /dev/nvidia*",
        FaultCode.NO_PERMISSION,
    ),
    Failure(
        "failed to initialize nvml: unknown error",
        (),
        "the NVIDIA driver failed to start: unknown error",
        "inside a container, restart it (it may have lost /dev/nvidia*); else see: sudo dmesg",
    ),
)


def failure(code: int, text: str) -> AndonError | None:
    """Returns a driver failure that nvidia-smi reported; None if it is not recognised."""
    lowered = text.lower()
    by_phrase = (found for found in _FAILURES if found.phrase in lowered)
    by_code = (found for found in _FAILURES if code in found.codes)
    found = next(by_phrase, None) or next(by_code, None)
    return None if found is None else found.kind(found.reason, found.hint, cause=found.code)


def misunderstood(code: int, text: str) -> Unreadable:
    """Returns the error for output without a document, quoted."""
    lines = (shown for line in text.splitlines() if (shown := plain(line)))
    first = next(lines, None)
    reason = f'nvidia-smi says "{first}"' if first else "nvidia-smi printed nothing"
    ending = f" (exit code {code})" if code else ""
    return Unreadable(f"{reason}{ending}", hint="run it to see: nvidia-smi -q -x")
