"""Raises an Xid on purpose, with a CUDA kernel that writes to an invalid address.

Run with `python -m tests.device.xid`. The driver ends this program and reports Xid 31 or 13; the
device is not harmed. Other monitors of the kernel log see it too, so it is done only if
ANDON_DEVICE_XID=1 is set.
"""

import ctypes
import sys

ASKED_BY = "ANDON_DEVICE_XID"
_PTX = b"""
.version 7.0
.target sm_50
.address_size 64
.visible .entry poke() {
    .reg .u64 %address;
    .reg .u32 %value;
    mov.u64 %address, 16;
    mov.u32 %value, 1;
    st.global.u32 [%address], %value;
    ret;
}
"""


class NoCudaError(Exception):
    """It cannot be done here; the message says why."""


def main() -> int:
    """The CUDA kernel's error, which must occur: 700 is an illegal address."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as exc:
        raise NoCudaError(f"CUDA is not available: {exc}") from exc

    def call(name: str, *arguments: object) -> None:
        code = getattr(cuda, name)(*arguments)
        if code:
            raise NoCudaError(f"{name} returned {code}")

    device, context = ctypes.c_int(), ctypes.c_void_p()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    call("cuModuleLoadData", ctypes.byref(module), _PTX)
    call("cuModuleGetFunction", ctypes.byref(function), module, b"poke")
    call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    return int(cuda.cuCtxSynchronize())


if __name__ == "__main__":
    try:
        print(main(), flush=True)
    except NoCudaError as reason:
        sys.exit(str(reason))
