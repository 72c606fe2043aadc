"""The processes on a device, from NVML's three process lists."""

import ctypes
import struct
from typing import Any, Final

from msgspec import Struct

from andon.drivers.nvidia import nvml
from andon.drivers.nvidia.nvml import Handle
from andon.drivers.nvidia.tiers import OFTEN, DueTimes
from andon.drivers.nvidia.trouble import INSUFFICIENT_SIZE, ErrorScope, survivable
from andon.model.device import ProcessKind

NOT_A_NUMBER: Final = 0xFFFFFFFFFFFFFFFF  # the driver's value for unknown process memory
_PROCESS = struct.Struct(
    "=I4xQII"
)  # pid, memory, instances: the same in the driver's v2 and v3 lists


class ListedProcess(Struct, frozen=True):
    """One entry of a driver's process list."""

    pid: int
    memory_bytes: int | None
    instance: int | None


class ProcessList:
    """Reads one of a device's process lists into a reused buffer.

    The library's own function makes two calls, for the length and for the list, and each costs the
    same: with a buffer one is enough. A list that did not change is the same object, so that it
    need not be processed again.
    """

    def __init__(self, function: str) -> None:
        self.name = function
        self.uses: tuple[ListedProcess, ...] = ()
        """The latest list."""
        self._call: Any = None
        self._raw = b""
        self._grow(64)

    def read(self, handle: Handle) -> tuple[ListedProcess, ...]:
        length = ctypes.c_uint(self._room)
        code = self._function()(handle, ctypes.byref(length), self._buffer)
        if code == INSUFFICIENT_SIZE:
            self._grow(2 * max(length.value, self._room))
            return self.read(handle)
        if code:
            raise nvml.Error(code)
        raw = bytes(self._view[: length.value * _PROCESS.size])
        if raw != self._raw:
            self._raw = raw
            self.uses = tuple(_use(*entry) for entry in _PROCESS.iter_unpack(raw))
        return self.uses

    def _grow(self, room: int) -> None:
        self._room = room
        self._buffer = ctypes.create_string_buffer(room * _PROCESS.size)
        self._view = memoryview(self._buffer)

    def _function(self) -> Any:
        if self._call is None:
            try:
                self._call = nvml.function(f"{self.name}_v3")
            except nvml.Error:
                self._call = nvml.function(f"{self.name}_v2")
        return self._call


Found = tuple[tuple[ListedProcess, ProcessKind], ...]


class ProcessLists:
    """Every process of one device once, with its kind.

    The list of compute processes is the most expensive of the cheap calls, a third of a sample. No
    process starts or ends without changing the used memory, so it is read when that changed, and
    every few seconds. Graphics processes and MPS clients (which compute) are read less often if
    there were none: most devices never have one.
    """

    def __init__(self) -> None:
        self._compute = ProcessList("nvmlDeviceGetComputeRunningProcesses")
        self._others = (
            (ProcessKind.COMPUTE, ProcessList("nvmlDeviceGetMPSComputeRunningProcesses")),
            (ProcessKind.GRAPHICS, ProcessList("nvmlDeviceGetGraphicsRunningProcesses")),
        )
        self._due = DueTimes()
        self._memory_used: int | None = None
        self._found: Found = ()
        self.reason: str | None = None

    def read(self, handle: Handle, memory_used: int | None, now: float) -> Found:
        """Returns the processes, given the used memory of the device (None: unknown)."""
        if (
            self._due.take(self._compute.name, OFTEN, now)
            or memory_used is None
            or memory_used != self._memory_used
        ):
            self._found = self._ask(handle, now)
            self._memory_used = None if self.reason else memory_used  # a failure is retried
        return self._found

    def _ask(self, handle: Handle, now: float) -> Found:
        self.reason = None
        found = {use.pid: (use, ProcessKind.COMPUTE) for use in self._uses(self._compute, handle)}
        for kind, processes in self._others:
            if processes.uses or self._due.take(processes.name, OFTEN, now):
                for use in self._uses(processes, handle):
                    # A process in both lists has the same memory in each.
                    found.setdefault(use.pid, (use, kind))
        return tuple(found.values())

    def _uses(self, processes: ProcessList, handle: Handle) -> tuple[ListedProcess, ...]:
        try:
            return processes.read(handle)
        except nvml.Error as error:
            found = survivable(error)
            if found.reach is not ErrorScope.FOR_GOOD or processes is self._compute:
                self.reason = found.reason
            return ()


def _use(pid: int, memory_bytes: int, instance: int, _: int) -> ListedProcess:
    return ListedProcess(
        pid=pid,
        memory_bytes=None if memory_bytes == NOT_A_NUMBER else memory_bytes,
        instance=None if instance == nvml.NO_INSTANCE else instance,
    )
