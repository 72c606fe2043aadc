"""Who is on a device, from NVML's three process lists."""

from andon.backends.nvidia import nvml
from andon.backends.nvidia.nvml import Handle
from andon.backends.nvidia.probes import OFTEN, Due
from andon.backends.nvidia.trouble import Reach, survivable
from andon.model.device import ProcessKind

Found = tuple[tuple[nvml.Use, ProcessKind], ...]


class ProcessLists:
    """Every process of one device once, with its kind.

    Compute processes are asked for on every tick. Those that draw, and the clients of MPS (which
    compute), are asked for seldom where there were none: most devices never have one.
    """

    def __init__(self) -> None:
        self._compute = nvml.ProcessList("nvmlDeviceGetComputeRunningProcesses")
        self._others = (
            (ProcessKind.COMPUTE, nvml.ProcessList("nvmlDeviceGetMPSComputeRunningProcesses")),
            (ProcessKind.GRAPHICS, nvml.ProcessList("nvmlDeviceGetGraphicsRunningProcesses")),
        )
        self._due = Due()
        self.reason: str | None = None

    def read(self, handle: Handle, now: float) -> Found:
        self.reason = None
        found = {use.pid: (use, ProcessKind.COMPUTE) for use in self._uses(self._compute, handle)}
        for kind, processes in self._others:
            if processes.uses or self._due.take(processes.name, OFTEN, now):
                for use in self._uses(processes, handle):
                    # One that computes and draws stands in two lists with one memory.
                    found.setdefault(use.pid, (use, kind))
        return tuple(found.values())

    def _uses(self, processes: nvml.ProcessList, handle: Handle) -> tuple[nvml.Use, ...]:
        try:
            return processes.read(handle)
        except nvml.Error as error:
            found = survivable(error)
            if found.reach is not Reach.FOR_GOOD or processes is self._compute:
                self.reason = found.reason
            return ()
