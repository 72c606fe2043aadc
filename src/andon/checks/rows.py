"""What NVML says in the process of one card: its remapped rows, and who it is if it slept."""

import ctypes
from contextlib import suppress
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
SLEEPER = "nvidia@"  # before the address, where a card was never awake
TEXT_BYTES = 96
NO_ATTACH = 2  # only the card that is asked about is opened
NAMES = ("correctable", "uncorrectable", "pending", "failed")


def remapped_rows(uuid: str) -> dict[str, Any]:
    """Returns the four values, or the reason why they are not known."""
    try:
        library = ctypes.CDLL(LIBRARY)
        handle, found = ctypes.c_void_p(), [ctypes.c_uint() for _ in NAMES]
        for code in (
            library.nvmlInitWithFlags(NO_ATTACH),
            library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)),
            library.nvmlDeviceGetRemappedRows(handle, *map(ctypes.byref, found)),
        ):
            if code != 0:
                return {"reason": f"the driver does not report them (NVML error {code})"}
    except (OSError, AttributeError) as error:
        return {"reason": str(error)}
    return dict(zip(NAMES, (one.value for one in found), strict=True))


def awake(uuid: str) -> dict[str, str]:
    """Wakes a card that is known by its address alone; returns its identity and model, or
    nothing for every other card."""
    address, given = uuid.removeprefix(SLEEPER).encode(), dict[str, str]()
    if not uuid.startswith(SLEEPER):
        return given
    with suppress(OSError, AttributeError):
        library, handle = ctypes.CDLL(LIBRARY), ctypes.c_void_p()
        library.nvmlInitWithFlags(NO_ATTACH)
        library.nvmlDeviceGetHandleByPciBusId_v2(address, ctypes.byref(handle))
        for name, function in (("uuid", "UUID"), ("model", "Name")):
            text = ctypes.create_string_buffer(TEXT_BYTES)
            if library[f"nvmlDeviceGet{function}"](handle, text, TEXT_BYTES) == 0:
                given[name] = text.value.decode(errors="replace")
    return given
