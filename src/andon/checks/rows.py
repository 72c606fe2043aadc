"""What NVML says in the process of one card: its remapped rows, and who it is if it slept."""

import ctypes
from contextlib import suppress
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
NAMES = ("correctable", "uncorrectable", "pending", "failed")


def remapped_rows(uuid: str) -> dict[str, Any]:
    """Returns the four values, or the reason why they are not known. Each call needs the one
    before: without a handle the driver's library ends the process."""
    try:
        library = ctypes.CDLL(LIBRARY)
        handle, found = ctypes.c_void_p(), [ctypes.c_uint() for _ in NAMES]
        for name, arguments in (
            ("nvmlInit_v2", ()),
            ("nvmlDeviceGetHandleByUUID", (uuid.encode(), ctypes.byref(handle))),
            ("nvmlDeviceGetRemappedRows", (handle, *map(ctypes.byref, found))),
        ):
            if code := getattr(library, name)(*arguments):
                return {"reason": f"the driver does not report them (NVML error {code})"}
    except (OSError, AttributeError) as error:
        return {"reason": str(error)}
    return dict(zip(NAMES, (one.value for one in found), strict=True))


SLEEPER = "nvidia@"  # before the address of a card that was never awake
TEXT_BYTES = 96


def awake(uuid: str) -> dict[str, str]:
    """Wakes a card that is known by its address alone; returns its identity and model, or nothing
    for every other card. Without a handle nothing is asked."""
    found = dict[str, str]()
    if not uuid.startswith(SLEEPER):
        return found
    with suppress(OSError, AttributeError):
        library, handle = ctypes.CDLL(LIBRARY), ctypes.c_void_p()
        address = uuid.removeprefix(SLEEPER).encode()
        if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByPciBusId_v2(
            address, ctypes.byref(handle)
        ):
            return found
        for name, function in (("uuid", "nvmlDeviceGetUUID"), ("model", "nvmlDeviceGetName")):
            text = ctypes.create_string_buffer(TEXT_BYTES)
            if getattr(library, function)(handle, text, TEXT_BYTES) == 0:
                found[name] = text.value.decode(errors="replace")
    return found
