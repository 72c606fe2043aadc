"""The faults of the stand-in.

No functions named means all of them; `device` None means the whole node.
"""

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from msgspec import Struct

Action = Literal["error", "delay", "hang", "hang_file", "crash", "crash_once"]

EVERY = "*"
INIT_FUNCTIONS = ("nvmlInit_v2", "nvmlInitWithFlags")
HANDLE_FUNCTIONS = (
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetHandleByPciBusId_v2",
    "nvmlDeviceGetHandleByUUID",
)

NOT_SUPPORTED = 3
GPU_IS_LOST = 15

_crash_numbers = itertools.count()


class Fault(Struct, frozen=True):
    """One fault.

    "*" among `functions` means every function; for one device, every function that takes its handle
    (looking it up still works, unless listed here too).
    """

    action: Action
    functions: tuple[str, ...] = (EVERY,)
    device: int | None = None
    value: int | str = 0

    def lines(self) -> Iterable[str]:
        """The lines of the control file."""
        device = -1 if self.device is None else self.device
        return (f"rule {self.action} {device} {name} {self.value}" for name in self.functions)


def error(code: int, *functions: str, device: int | None = None) -> Fault:
    """The functions return this NVML error."""
    return Fault("error", functions or (EVERY,), device, code)


def lost(device: int, *, handle: bool = False) -> Fault:
    """The GPU fell off the bus; with `handle` it cannot be looked up either."""
    functions = (EVERY, *HANDLE_FUNCTIONS) if handle else (EVERY,)
    return error(GPU_IS_LOST, *functions, device=device)


def not_supported(*functions: str, device: int | None = None) -> Fault:
    """The functions return "not supported"."""
    return error(NOT_SUPPORTED, *functions, device=device)


def init_fails(code: int) -> Fault:
    """Every nvmlInit fails with this code."""
    return error(code, *INIT_FUNCTIONS)


def hung(*functions: str, device: int | None = None) -> Fault:
    """The calls block until the fault is removed; the process can be killed meanwhile."""
    return Fault("hang", functions or (EVERY,), device)


def hang_file(path: Path, *functions: str, device: int | None = None) -> Fault:
    """Each call writes and syncs this file first: on a frozen file system it cannot be killed."""
    return Fault("hang_file", functions or (EVERY,), device, str(path))


def delay(microseconds: int, *functions: str, device: int | None = None) -> Fault:
    """Each call takes this much longer."""
    return Fault("delay", functions or (EVERY,), device, microseconds)


def crash(*functions: str, device: int | None = None, once: bool = True) -> Fault:
    """The next call crashes with SIGSEGV: only one, in any process, or all while enabled."""
    if not once:
        return Fault("crash", functions or (EVERY,), device)
    # Numbered, so that all processes know whether this one has happened.
    return Fault("crash_once", functions or (EVERY,), device, next(_crash_numbers))
