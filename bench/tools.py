"""The compared tools, each taking one snapshot of the whole node per tick."""

import importlib
import os
import resource
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Final

from andon.app.sampler import open_sampler
from andon.app.settings import load_settings

_SCHEDULER_CLOCK = 2
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SMI_DEADLINE_SECONDS = 60.0

SMI_FIELDS: Final = (
    "index", "uuid", "name", "pci.bus_id", "driver_version", "utilization.gpu",
    "utilization.memory", "memory.used", "memory.free", "memory.total", "memory.reserved",
    "temperature.gpu", "power.draw", "enforced.power.limit", "clocks.sm", "clocks.mem",
    "clocks_event_reasons.active", "pstate", "fan.speed", "pcie.link.gen.current",
    "pcie.link.width.current",
)  # fmt: skip


class AbsentError(Exception):
    """A tool that is not available; the message says why."""


class Tool(ABC):
    """Takes snapshots, and measures their cost: CPU of this process and all its children."""

    def ticks(self, interval_seconds: float) -> Iterator[float]:
        """Take a snapshot per interval (0: one after another) and yield the wall time of each."""
        due = time.monotonic()
        while True:
            time.sleep(max(0.0, due - time.monotonic()))
            started = time.perf_counter()
            self.snapshot()
            yield time.perf_counter() - started
            due = max(due + interval_seconds, time.monotonic())

    @abstractmethod
    def snapshot(self) -> None: ...

    @abstractmethod
    def fields(self) -> list[str]:
        """The content of a snapshot, in the tool's own terms."""

    @abstractmethod
    def devices(self) -> int: ...

    def processes(self) -> int:
        return 0

    def cpu_seconds(self) -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime

    def reader_cpu_seconds(self) -> float:
        return 0.0

    def reader_wall_seconds(self) -> float | None:
        """Time of the last tick inside the reader process, if the tool has one."""
        return None

    def memory_bytes(self) -> int:
        return resident_bytes(os.getpid())

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Release resources."""


class Andon(Tool):
    """andon as it runs: the sampler here, the reader in its own process."""

    def __init__(self) -> None:

        self._sampler = open_sampler(load_settings({}).settings)
        self._latest: Any = None

    def ticks(self, interval_seconds: float) -> Iterator[float]:
        if not interval_seconds:
            yield from super().ticks(0.0)
            return
        with self._sampler.subscribe(interval_seconds) as snapshots:
            for snapshot in snapshots:
                # A tick begins at its recorded time, and ends when it is received.
                wall = time.time() - snapshot.at
                self._latest = snapshot
                yield wall

    def snapshot(self) -> None:
        self._latest = self._sampler.once()

    def fields(self) -> list[str]:
        from andon.model.device import SAMPLE_VALUES

        known = [
            name
            for name in SAMPLE_VALUES
            if any(getattr(s.sample, name, None) is not None for s in self._latest.devices)
        ]
        shown = {
            name
            for status in self._latest.devices
            for process in status.processes
            for name in ("name", "user", "command", "started", "memory_bytes")
            if getattr(process, name) is not None
        }
        return known + [f"process {name}" for name in sorted(shown)] + ["host cpu, memory, load"]

    def devices(self) -> int:
        answered: list[Any] = [s for s in self._latest.devices if s.answered]
        return len(answered)

    def processes(self) -> int:
        return sum(p.name is not None for s in self._latest.devices for p in s.processes)

    def cpu_seconds(self) -> float:
        return time.process_time() + self.reader_cpu_seconds()

    def reader_cpu_seconds(self) -> float:
        return sum(map(process_cpu_seconds, self._sampler.reader_pids()))

    def reader_wall_seconds(self) -> float | None:
        # The last report, not the difference of two sums: a report may arrive one tick late.
        return self._sampler.costs().reader_last_wall_seconds

    def memory_bytes(self) -> int:
        return sum(map(resident_bytes, (os.getpid(), *self._sampler.reader_pids())))

    def close(self) -> None:
        self._sampler.close()


class Nvitop(Tool):
    """nvitop's own snapshot: `as_snapshot` of every device, `take_snapshots` of all processes."""

    def __init__(self) -> None:
        self._nvitop = installed("nvitop")
        self._devices = self._nvitop.Device.all()
        self._seen = 0

    def snapshot(self) -> None:
        for device in self._devices:
            device.as_snapshot()
        processes = [p for device in self._devices for p in device.processes().values()]
        self._seen = len(self._nvitop.GpuProcess.take_snapshots(processes, failsafe=True))

    def fields(self) -> list[str]:
        process = ["username", "name", "cmdline", "cpu_percent", "host_memory", "gpu_memory"]
        return [*self._nvitop.Device.SNAPSHOT_KEYS, *(f"process {name}" for name in process)]

    def devices(self) -> int:
        return len(self._devices)

    def processes(self) -> int:
        return self._seen


class NvitopSameFacts(Nvitop):
    """nvitop, limited to what andon reads every tick and the process names."""

    FACTS = (
        "gpu_utilization", "memory_utilization", "memory_info", "temperature", "power_usage",
        "power_limit", "sm_clock", "memory_clock", "performance_state",
    )  # fmt: skip
    PROCESS_FACTS = ("gpu_memory", "name", "username", "command", "create_time")

    def snapshot(self) -> None:
        seen = 0
        for device in self._devices:
            with device.oneshot():
                for name in self.FACTS:
                    getattr(device, name)()
            with self._nvitop.GpuProcess.failsafe():
                for process in device.processes().values():
                    for name in self.PROCESS_FACTS:
                        getattr(process, name)()
                    seen += 1
        self._seen = seen

    def fields(self) -> list[str]:
        return [*self.FACTS, *(f"process {name}" for name in self.PROCESS_FACTS)]


class Gpustat(Tool):
    """gpustat's query, which opens and closes NVML each time."""

    def __init__(self) -> None:
        self._gpustat = installed("gpustat")
        self._latest: Any = None

    def snapshot(self) -> None:
        self._latest = self._gpustat.new_query()

    def fields(self) -> list[str]:
        names = [name for name in self._latest[0].entry if name != "processes"]
        process = ["username", "command", "full_command", "gpu_memory_usage", "cpu_percent"]
        return [*names, *(f"process {name}" for name in process)]

    def devices(self) -> int:
        return len(self._latest)

    def processes(self) -> int:
        return sum(len(gpu.processes or ()) for gpu in self._latest)


class Smi(Tool):
    """`nvidia-smi` with some arguments, once per tick."""

    def __init__(self, arguments: list[str], fields: list[str]) -> None:
        found = shutil.which("nvidia-smi")
        if found is None:
            raise AbsentError("nvidia-smi is not installed")
        self._command, self._fields = [found, *arguments], fields
        self._count = 0

    def snapshot(self) -> None:
        done = subprocess.run(
            self._command, capture_output=True, check=True, timeout=SMI_DEADLINE_SECONDS
        )
        self._count = done.stdout.count(b"<gpu ") or len(done.stdout.splitlines())

    def fields(self) -> list[str]:
        return self._fields

    def devices(self) -> int:
        return self._count

    def memory_bytes(self) -> int:
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def _smi_csv() -> Tool:
    query = f"--query-gpu={','.join(SMI_FIELDS)}"
    return Smi([query, "--format=csv,noheader,nounits"], list(SMI_FIELDS))


def _smi_xml() -> Tool:
    return Smi(["-q", "-x"], ["everything that nvidia-smi knows, with pids and process names"])


TOOLS: Final[dict[str, Callable[[], Tool]]] = {
    "andon": Andon,
    "nvitop": Nvitop,
    "nvitop-same": NvitopSameFacts,
    "gpustat": Gpustat,
    "smi-xml": _smi_xml,
    "smi-csv": _smi_csv,
}
"""By their --tools names; andon first, because the others are compared with it."""


def installed(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        raise AbsentError(f"{name} cannot be imported: {exc}") from exc


def process_cpu_seconds(pid: int) -> float:
    """All threads of another process, to the nanosecond; /proc/<pid>/stat counts in 10 ms."""
    try:
        return time.clock_gettime((~pid << 3) | _SCHEDULER_CLOCK)
    except OSError:
        return 0.0


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123 - a kernel file
        return int(file.read().split()[1]) * _PAGE_BYTES
