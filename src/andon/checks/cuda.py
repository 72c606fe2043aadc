"""NVIDIA's driver library, as far as a check needs it; only the process of one card loads it."""

import ctypes
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

LIBRARY = "libcuda.so.1"
OUT_OF_MEMORY = 2
TOO_OLD = frozenset((35, 222))  # of the driver: for the card, or for the text of a kernel
UNCORRECTABLE = frozenset((214, 220))  # memory, NVLink
LEAST_DRIVER = 10_020  # CUDA 10.2: the first whose compiler knows all texts for cards of its time
ATTRIBUTES = {
    "sms": 16, "integrated": 18, "compute_mode": 20, "threads_per_sm": 39, "memory_khz": 36,
    "bus_bits": 37, "clock_khz": 13, "major": 75, "minor": 76, "mps": 133,
}  # fmt: skip
_POINTER, _SIZE = ctypes.c_uint64, ctypes.c_size_t


class CudaError(Exception):
    """The driver refused a call."""

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"{call}: {name or 'error'} ({code})")
        self.code = code


class Memory(Struct, frozen=True):
    """Memory of the card, or of the host next to it."""

    address: int
    bytes: int


class Cuda:
    """One device of the driver and its primary context."""

    def __init__(self) -> None:
        self._library: Any = ctypes.CDLL(LIBRARY)
        self._modules: list[ctypes.c_void_p] = []
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the library; raises CudaError if it fails."""
        code = self._library[name](*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self._library["cuGetErrorName"](code, ctypes.byref(text))
            raise CudaError(name, code, (text.value or b"").decode(errors="replace"))

    def number(self, name: str, *arguments: Any) -> int:
        """Calls a function that gives one number."""
        out = ctypes.c_int()
        self.call(name, ctypes.byref(out), *arguments)
        return out.value

    def open(self, ordinal: int = 0) -> int:
        """Takes the primary context of a device; returns the device."""
        device = self.number("cuDeviceGet", ordinal)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.context = context
        return device

    def uuid(self, device: int) -> str:
        """Returns the 16 bytes of its identity as text: `8c1d0f1e-…`."""
        raw = (ctypes.c_ubyte * 16)()
        try:
            self.call("cuDeviceGetUuid_v2", ctypes.byref(raw), device)
        except AttributeError:  # before CUDA 11.4, which knew no identity of a partition
            self.call("cuDeviceGetUuid", ctypes.byref(raw), device)
        text = bytes(raw).hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def attributes(self, device: int) -> dict[str, int | None]:
        """Returns what the device is; None for what this driver does not know."""
        found: dict[str, int | None] = {}
        for name, number in ATTRIBUTES.items():
            try:
                found[name] = self.number("cuDeviceGetAttribute", number, device)
            except CudaError:
                found[name] = None
        return found

    def memory(self) -> tuple[int, int]:
        """Returns the free and all bytes of the card."""
        free, total = _SIZE(), _SIZE()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    @contextmanager
    def allocated(self, size: int) -> Iterator[Memory]:
        found = self.allocate(size)
        try:
            yield found
        finally:
            self.free(found)

    def allocate(self, size: int) -> Memory:
        address = _POINTER()
        self.call("cuMemAlloc_v2", ctypes.byref(address), _SIZE(size))
        return Memory(address.value, size)

    def free(self, memory: Memory) -> None:
        self.call("cuMemFree_v2", _POINTER(memory.address))

    @contextmanager
    def pinned(self, size: int) -> Iterator[Memory]:
        """Memory of the host that the card reaches without a copy."""
        address = ctypes.c_void_p()
        self.call("cuMemAllocHost_v2", ctypes.byref(address), _SIZE(size))
        try:
            yield Memory(address.value or 0, size)
        finally:
            self.call("cuMemFreeHost", address)

    def write(self, to: Memory, content: bytes) -> None:
        self.call("cuMemcpyHtoD_v2", _POINTER(to.address), content, _SIZE(len(content)))

    def read(self, at: Memory, size: int) -> bytes:
        buffer = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", buffer, _POINTER(at.address), _SIZE(size))
        return buffer.raw

    def load(self, text: str) -> Any:
        """Compiles a text for this card."""
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), text.encode() + b"\0")
        return module

    def function(self, module: Any, name: str) -> Any:
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def launch(self, function: Any, blocks: int, threads: int, values: Sequence[Any]) -> None:
        """Starts a kernel with these parameters, which are ctypes values."""
        places = (ctypes.c_void_p * len(values))(
            *(ctypes.cast(ctypes.byref(one), ctypes.c_void_p) for one in values)
        )
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, places, None)

    @contextmanager
    def timed(self, seconds: list[float]) -> Iterator[None]:
        """Waits for what was started inside, and appends how long the card took for it."""
        first, last = ctypes.c_void_p(), ctypes.c_void_p()
        for one in (first, last):
            self.call("cuEventCreate", ctypes.byref(one), 0)
        try:
            self.call("cuEventRecord", first, None)
            yield
            self.call("cuEventRecord", last, None)
            self.call("cuEventSynchronize", last)
            spent = ctypes.c_float()
            self.call("cuEventElapsedTime", ctypes.byref(spent), first, last)
            seconds.append(max(spent.value / 1000.0, 1e-9))
        finally:
            for one in (first, last):
                self._library["cuEventDestroy_v2"](one)


def f32(value: float) -> ctypes.c_float:
    return ctypes.c_float(value)


def u32(value: int) -> ctypes.c_uint32:
    return ctypes.c_uint32(value & 0xFFFFFFFF)


def u64(value: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(value)


def copy_up(cuda: Cuda, to: int, host: int, size: int) -> None:
    cuda.call("cuMemcpyHtoDAsync_v2", _POINTER(to), ctypes.c_void_p(host), _SIZE(size), None)


def copy_down(cuda: Cuda, host: int, at: int, size: int) -> None:
    cuda.call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(host), _POINTER(at), _SIZE(size), None)


def copy_inside(cuda: Cuda, to: int, at: int, size: int) -> None:
    cuda.call("cuMemcpyDtoDAsync_v2", _POINTER(to), _POINTER(at), _SIZE(size), None)


def copy_to_peer(cuda: Cuda, to: int, target: Any, at: int, source: Any, size: int) -> None:
    cuda.call("cuMemcpyPeerAsync", _POINTER(to), target, _POINTER(at), source, _SIZE(size), None)


def host_content(memory: Memory, size: int) -> bytes:
    """Returns the beginning of the host's memory."""
    return ctypes.string_at(memory.address, size)


def set_host(memory: Memory, content: bytes) -> None:
    ctypes.memmove(memory.address, content, len(content))


def wrong_entries(raw: bytes, size: int) -> list[tuple[int, int, int]]:
    """Reads a list of a kernel: index, what was read, what it should be."""
    return [struct.unpack_from("<QII", raw, at) for at in range(0, len(raw) - size + 1, size)]
