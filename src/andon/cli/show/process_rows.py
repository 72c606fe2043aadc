"""The processes of a snapshot as rows, JSON and CSV."""

import re
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import asdict

from andon.cli.show import cells
from andon.cli.show.csv_table import CsvTable, attributes
from andon.cli.show.entries import NamedDevice, entries
from andon.model import wire
from andon.model.codec import to_json
from andon.model.device import Process, Snapshot
from andon.model.naming import SIMULATED
from andon.units import iso_utc

_NUMBERED = re.compile(r"(\w+:)?[\d.]+")
SCHEMA = "andon.processes/1"


class HostCounters(Protocol):
    """The operating system's counters of one process."""

    @property
    def cpu_seconds(self) -> float: ...
    @property
    def memory_bytes(self) -> int | None: ...


class HostUsage(Struct, frozen=True):
    """CPU and host memory of a process, between two readings."""

    cpu_percent: float | None = None
    memory_bytes: int | None = None


class ProcessRow(Struct, frozen=True):
    """One process on one device; without a process, the memory not accounted for."""

    entry: NamedDevice
    process: Process | None
    memory_bytes: int | None
    host: HostUsage = HostUsage()
    elapsed_seconds: float | None = None


SORTS: Mapping[str, Callable[[ProcessRow], float]] = {
    "memory": lambda use: -(use.memory_bytes or 0),
    "gpu": lambda use: -((use.process.utilization_percent if use.process else 0) or 0),
    "cpu": lambda use: -(use.host.cpu_percent or 0),
    "time": lambda use: -(use.elapsed_seconds or 0),
    "pid": lambda use: use.process.pid if use.process else 0,
}


def local_pids(snapshot: Snapshot) -> set[int]:
    """Returns the pids in this system's /proc: no simulated ones, and none without a name."""
    real = [s for s in snapshot.devices if s.device.vendor != SIMULATED]
    return {p.pid for status in real for p in status.processes if p.name}


def between(
    first: Mapping[int, HostCounters], second: Mapping[int, HostCounters], seconds: float
) -> dict[int, HostUsage]:
    """Returns CPU and memory use from two readings; a process seen only once has no CPU share."""
    out: dict[int, HostUsage] = {}
    for pid, use in second.items():
        spent = use.cpu_seconds - first[pid].cpu_seconds if pid in first else None
        known = spent is not None and spent >= 0 and seconds > 0
        share = round(100.0 * spent / seconds, 1) if known and spent is not None else None
        out[pid] = HostUsage(share, use.memory_bytes)
    return out


class ProcessFilter(Struct, frozen=True):
    """Which processes to show; None means all."""

    user: str | None = None
    container: str | None = None  # part of its name, or the beginning of its id
    job: str | None = None
    container_ids: Mapping[int, str] = field(default_factory=dict)  # by pid, the full id

    def text(self) -> str:
        """Returns the filter as text: `of alice in jupyter`."""
        named = (("of", self.user), ("in", self.container), ("of job", self.job))
        return " ".join(f"{word} {value}" for word, value in named if value is not None)

    @property
    def everybody(self) -> bool:
        return self.user is None and self.container is None and self.job is None

    def includes(self, process: Process) -> bool:
        return (
            (self.user is None or process.user == self.user)
            and (self.container is None or self._is_in(process, self.container.lower()))
            and (self.job is None or is_job(process.job, self.job))
        )

    def _is_in(self, process: Process, text: str) -> bool:
        whole = self.container_ids.get(process.pid, "")
        return process.container is not None and (
            text in process.container.lower() or whole.startswith(text)
        )


def is_job(job: str | None, text: str) -> bool:
    """Whether text names this job: `42` and `slurm:42` match job 42 with all its steps, not 421;
    any other text matches a part."""
    if job is None:
        return False
    for name in (job, job.partition(":")[2]):
        if name == text or name.startswith(f"{text}."):
            return True
    return _NUMBERED.fullmatch(text) is None and text.lower() in job.lower()


def uses(
    snapshot: Snapshot,
    hosts: Mapping[int, HostUsage],
    wanted: ProcessFilter = ProcessFilter(),  # noqa: B008 - frozen
    sort: str = "memory",
) -> list[ProcessRow]:
    """The processes on responding devices; unaccounted memory comes last and has no user."""
    seen = [entry for entry in entries(snapshot) if entry.status.answered]
    held = [
        _use(entry, process, hosts, snapshot.at)
        for entry in seen
        for process in entry.status.processes
        if wanted.includes(process)
    ]
    return sorted(held, key=SORTS[sort]) + (_unexplained(seen) if wanted.everybody else [])


def _use(
    entry: NamedDevice, process: Process, hosts: Mapping[int, HostUsage], at: float
) -> ProcessRow:
    elapsed = None if process.started is None else max(0.0, at - process.started)
    host = hosts.get(process.pid, HostUsage())
    return ProcessRow(entry, process, process.memory_bytes, host, elapsed)


def _unexplained(seen: list[NamedDevice]) -> list[ProcessRow]:
    sizes = [(entry, cells.unexplained(entry)) for entry in seen]
    return [ProcessRow(entry, None, size) for entry, size in sizes if size is not None]


def uses_to_json(snapshot: Snapshot, found: list[ProcessRow]) -> wire.Json:
    return {
        "schema": SCHEMA,
        "node": snapshot.node,
        "at": snapshot.at,
        "simulated": snapshot.simulated,
        "processes": [_to_json(use) for use in found if use.process],
        "unattributed": [
            {**_place(use), "memory_bytes": use.memory_bytes} for use in found if not use.process
        ],
        "faults": [asdict(fault) for fault in snapshot.faults],
    }


def _process(row: tuple[Snapshot, ProcessRow]) -> Process | None:
    return row[1].process


PROCESSES: CsvTable[tuple[Snapshot, ProcessRow]] = CsvTable(
    {
        "at": lambda row: row[0].at,
        "at_iso": lambda row: iso_utc(row[0].at),
        "node": lambda row: row[0].node,
        "device": lambda row: row[1].entry.status.device.uuid,
        **attributes(("index", "vendor"), lambda row: row[1].entry.status.device),
        **attributes(("pid", "started", "kind", "user", "name", "command"), _process),
        "memory_bytes": lambda row: row[1].memory_bytes,
        **attributes(("utilization_percent",), _process),
        "host_cpu_percent": lambda row: row[1].host.cpu_percent,
        "host_memory_bytes": lambda row: row[1].host.memory_bytes,
        "elapsed_seconds": lambda row: row[1].elapsed_seconds,
        **attributes(("container", "job", "lease"), _process),
    }
)
"""One row per process, with the vendor, so that `sim` is visible; the row of unaccounted memory
has no pid."""


def _place(use: ProcessRow) -> wire.Json:
    return {"device": use.entry.status.device.uuid, "index": use.entry.status.device.index}


def _to_json(use: ProcessRow) -> wire.Json:
    assert use.process is not None
    return {
        **_place(use),
        **to_json(use.process),
        "host_cpu_percent": use.host.cpu_percent,
        "host_memory_bytes": use.host.memory_bytes,
        "elapsed_seconds": use.elapsed_seconds,
    }
