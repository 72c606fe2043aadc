"""Rows of a card's memory that were replaced by spare ones, by NVML in the process of that card."""

import ctypes
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
