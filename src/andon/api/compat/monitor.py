"""The kept GPUMonitor: cached queries and monitoring sessions on the process's sampler."""

import sys
import threading
import time
import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from andon.api import watch as library
from andon.api.compat.metrics import GpuMetrics
from andon.failures.log import FailureLog
from andon.leases.rules.eligibility import score
from andon.leases.rules.verdict import available_by_readings
from andon.model import wire
from andon.model.device import Device, DeviceStatus, Snapshot
from andon.runs.rules.tallies import RunSummary, Summary
from andon.sampling.follower import Follower
from andon.sampling.rules.unread import faults_of
from andon.units import MIB


class GPUInfo(Struct, frozen=True):
    """One device that answered; memory in MiB, None if unknown."""

    index: int
    name: str
    memory_total_mb: int | None
    memory_used_mb: int | None
    memory_free_mb: int | None
    utilization_percent: int | None
    temperature_c: int | None
    power_draw_w: float | None
    score: float | None


class GPUSnapshot(Struct, frozen=True):
    """The node's devices at one time (timezone-aware, UTC)."""

    timestamp: datetime
    gpus: list[GPUInfo]
    faults: list[wire.Json] = []


class MonitoringSession:
    """One monitoring session; any number run side by side, each with its own interval."""

    def __init__(
        self, interval_seconds: float, ended: Callable[["MonitoringSession"], None]
    ) -> None:
        self._ended = ended
        self._summary = Summary()
        self._began = time.monotonic()
        self._result: RunSummary | None = None
        self._lock = threading.Lock()
        self._follower = Follower(
            library.shared().subscribe(interval_seconds, False),
            self._summary.add,
            "andon session",
            FailureLog("andon", "a snapshot was not counted"),
        ).start()

    def stop(self) -> RunSummary:
        """End this session and return its summary; a second call returns the same."""
        with self._lock:
            if self._result is None:
                duration = time.monotonic() - self._began
                self._follower.close()
                if not self._summary.sample_count:  # shorter than the first reading: take one now
                    self._summary.add(library.snapshot())
                self._result = self._summary.result(duration)
                self._ended(self)
            return self._result


class GPUMonitor:
    """Queries about the GPUs. One per process is enough: `get_gpu_monitor()`."""

    def __init__(self) -> None:
        self._cached: tuple[float, Snapshot] | None = None
        self._sessions: list[tuple[threading.Thread, MonitoringSession]] = []
        self._lock = threading.Lock()
        _monitors.add(self)

    def is_available(self) -> bool:
        """Whether at least one device answers."""
        return self.query_gpus() is not None

    def query_gpus(self, use_cache: bool = True) -> GPUSnapshot | None:
        """The devices that answer; at most two seconds old unless `use_cache` is off."""
        snapshot = self._snapshot(use_cache)
        gpus = [gpu_info(status) for status in _boards(snapshot)]
        if not gpus:
            return None
        return GPUSnapshot(datetime.fromtimestamp(snapshot.at, UTC), gpus, faults_of(snapshot))

    def faults(self) -> list[wire.Json]:
        """Why a vendor or a device cannot be read, as of the last query; empty if nothing fails."""
        return faults_of(self._snapshot(use_cache=True))

    def get_available_gpus(
        self,
        min_memory_mb: float | None = None,
        max_utilization: float = 50,
        *,
        even_if_used: bool = False,
    ) -> list[int]:
        """Indices of the devices that `andon free` calls free, best first; holds nothing.

        Each is available by itself: the balance rule of a group does not apply here. Our own leases
        count as available. A device that is busier than `max_utilization` is in use, and so is one
        with a process that has no lease, unless `even_if_used`.
        """
        wanted = None if not min_memory_mb else int(min_memory_mb * MIB)
        found = _available(wanted, max_utilization, even_if_used)
        return [device.index for device in found if device.parent is None]

    def get_gpu_info(self, gpu_index: int) -> GPUInfo | None:
        """One device by the node's index; None if it does not exist or does not answer."""
        found = self.query_gpus()
        return next((g for g in found.gpus if g.index == gpu_index), None) if found else None

    def collect_metrics(self) -> list[GpuMetrics]:
        """New readings of every device that answers."""
        return [GpuMetrics.from_status(s) for s in _boards(self._snapshot(use_cache=False))]

    def get_gpu_metrics(self) -> list[dict[str, Any]]:
        """Every device as in `andon.snapshot/1`, without its processes."""
        shown = wire.statuses_to_json(self._snapshot(use_cache=True))
        return [{k: v for k, v in status.items() if k != "processes"} for status in shown]

    def get_gpu_processes(self) -> list[dict[str, Any]]:
        """Every process on a device, with the device's index and uuid."""
        return wire.processes_to_json(self._snapshot(use_cache=True))

    def start_monitoring(self, interval_seconds: float = 1.0) -> MonitoringSession:
        """Begin a session; its `stop`, or `stop_monitoring`, ends it."""
        self._cached = None
        session = MonitoringSession(interval_seconds, self._forget)
        with self._lock:
            self._sessions.append((threading.current_thread(), session))
        return session

    def stop_monitoring(self) -> RunSummary | None:
        """End the calling thread's latest session, or if it has none the process's latest; None if
        no session is running."""
        self._cached = None
        with self._lock:
            me = threading.current_thread()
            mine = [one for one in self._sessions if one[0] is me] or self._sessions
            if not mine:
                return None
            chosen = mine[-1]
            self._sessions.remove(chosen)  # at once: another thread must not choose it too
        return chosen[1].stop()

    def _snapshot(self, use_cache: bool) -> Snapshot:
        cached = self._cached
        seconds = library.shared().settings.cache_seconds
        if use_cache and cached is not None and time.monotonic() - cached[0] < seconds:
            return cached[1]
        fresh = library.snapshot()
        self._cached = (time.monotonic(), fresh)
        return fresh

    def _forget(self, session: MonitoringSession) -> None:
        self._cached = None
        with self._lock:
            self._sessions[:] = [one for one in self._sessions if one[1] is not session]

    def _reset_after_fork(self) -> None:
        """Forgets the sessions in a forked child, which must not stop the parent's."""
        self._cached, self._sessions, self._lock = None, [], threading.Lock()


GpuMonitor = GPUMonitor  # a kept name, as GpuMetrics and GpuAlert are written

_monitors: weakref.WeakSet[GPUMonitor] = weakref.WeakSet()
_monitor: GPUMonitor | None = None
_lock = threading.Lock()


def get_gpu_monitor() -> GPUMonitor:
    """The process's monitor."""
    global _monitor
    with _lock:
        if _monitor is None:
            _monitor = GPUMonitor()
        return _monitor


def gpu_info(status: DeviceStatus) -> GPUInfo:
    """A device's status as a GPUInfo."""
    settings = library.shared().settings
    sample, total = status.sample, status.device.memory_total_bytes
    used = sample.memory_used_bytes if sample else None
    free = sample.memory_free_bytes if sample else None
    utilization = sample.utilization_percent if sample else None
    weights = settings.score_memory_weight, settings.score_utilization_weight
    return GPUInfo(
        index=status.device.index,
        name=status.device.name,
        memory_total_mb=_mib(total),
        memory_used_mb=_mib(used),
        memory_free_mb=_mib(free),
        utilization_percent=utilization,
        temperature_c=sample.temperature_celsius if sample else None,
        power_draw_w=sample.power_watts if sample else None,
        score=score(free, total, utilization, *weights),
    )


def _available(memory_bytes: int | None, max_utilization: float, used: bool) -> list[Device]:
    """Returns the available devices; on Windows, which has no leases, by the readings alone."""
    if sys.platform == "win32":
        statuses = library.snapshot().devices
        found = available_by_readings(statuses, memory_bytes, max_utilization, used)
    else:
        from andon.api.lease import available

        found = available(memory_bytes, max_utilization, used)
    busy = ((one, one.utilization_percent) for one in found)  # not judged of devices in use
    calm = (one for one, at in busy if not used or (at is not None and at <= max_utilization))
    return [one.status.device for one in calm]


def _boards(snapshot: Snapshot) -> list[DeviceStatus]:
    """Boards that answered; MIG instances share their board's index and are left out."""
    return [s for s in snapshot.devices if s.answered and s.device.parent is None]


def _mib(size: int | None) -> int | None:
    return None if size is None else size // MIB


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()
    for monitor in list(_monitors):
        monitor._reset_after_fork()


library.after_fork(_in_child)
