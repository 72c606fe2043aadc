"""Rows of a card's memory that were replaced by spare ones, by NVML in the process of that card."""

import ctypes
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
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
