"""The processes of a snapshot as rows: who uses what, and how it looks as text, JSON and CSV."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from andon.cli import cells
from andon.cli.csvrows import csv_line
from andon.cli.entries import Entry, entries
from andon.cli.table import Column, Row, draw
from andon.cli.text import Text, say
from andon.model import wire
from andon.model.device import Process, ProcessKind, Snapshot
from andon.units import human_bytes

SCHEMA = "andon.processes/1"
CSV = (
    "at", "node", "device", "index", "vendor", "pid", "started", "kind", "user", "name", "command",
    "memory_bytes", "utilization_percent", "host_cpu_percent", "host_memory_bytes",
    "elapsed_seconds", "container", "job", "lease",
)  # fmt: skip


class HostUse(Protocol):
    """What the operating system counts for one process."""

    @property
    def cpu_seconds(self) -> float: ...
    @property
    def memory_bytes(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class HostLook:
    """A process on the host's side, between two looks."""

    cpu_percent: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """One process on one device; without a process, the memory that none explains."""

    entry: Entry
    process: Process | None
    memory_bytes: int | None
    host: HostLook = HostLook()
    elapsed_seconds: float | None = None


SORTS: Mapping[str, Callable[[Use], float]] = {
    "memory": lambda use: -(use.memory_bytes or 0),
    "gpu": lambda use: -((use.process.utilization_percent if use.process else 0) or 0),
    "cpu": lambda use: -(use.host.cpu_percent or 0),
    "time": lambda use: -(use.elapsed_seconds or 0),
    "pid": lambda use: use.process.pid if use.process else 0,
}


def between(
    first: Mapping[int, HostUse], second: Mapping[int, HostUse], seconds: float
) -> dict[int, HostLook]:
    """CPU use is a difference; a process seen only once has a memory size and no CPU share."""
    out: dict[int, HostLook] = {}
    for pid, use in second.items():
        spent = use.cpu_seconds - first[pid].cpu_seconds if pid in first else None
        known = spent is not None and spent >= 0 and seconds > 0
        share = round(100.0 * spent / seconds, 1) if known and spent is not None else None
        out[pid] = HostLook(share, use.memory_bytes)
    return out


def uses(
    snapshot: Snapshot, hosts: Mapping[int, HostLook], user: str | None, sort: str
) -> list[Use]:
    """What the answering devices hold; unexplained memory comes last and belongs to no user."""
    seen = [entry for entry in entries(snapshot) if entry.status.answered]
    held = [
        _use(entry, process, hosts, snapshot.at)
        for entry in seen
        for process in entry.status.processes
        if user is None or process.user == user
    ]
    return sorted(held, key=SORTS[sort]) + ([] if user else _unexplained(seen))


def _use(entry: Entry, process: Process, hosts: Mapping[int, HostLook], at: float) -> Use:
    elapsed = None if process.started is None else max(0.0, at - process.started)
    host = hosts.get(process.pid, HostLook())
    return Use(entry, process, process.memory_bytes, host, elapsed)


def _unexplained(seen: list[Entry]) -> list[Use]:
    sizes = [(entry, cells.unexplained(entry)) for entry in seen]
    return [Use(entry, None, size) for entry, size in sizes if size is not None]


def render_uses(found: list[Use], width: int, color: bool, simulated: bool = False) -> str:
    """The table of `andon ps`."""
    lines = [say("no process uses a device", "dim")]
    if found:
        lines = draw(_columns(found), [Row(use) for use in found], width)
    if simulated:
        lines.insert(0, say(" SIMULATED ", "bold reverse"))
    return "".join(line.paint(color) + "\n" for line in lines)


def _columns(found: list[Use]) -> list[Column[Use]]:
    placed = any(u.process and (u.process.job or u.process.container) for u in found)
    columns: list[Column[Use]] = [
        Column("GPU", lambda u: say(u.entry.label, "bold"), rank=0),
        Column("USER", lambda u: _word(u, "user"), rank=1, elastic=8),
        Column("PID", lambda u: _word(u, "pid"), rank=2, right=True),
        Column("", _kind, rank=8, gap=1),
        Column("GPU MEM", lambda u: size(u.memory_bytes), rank=3, right=True),
        Column("UTIL", lambda u: cells.percent(_busy(u), cells.load_style(_busy(u))), rank=5,
               right=True, floor=4),
        Column("CPU", lambda u: cells.percent(u.host.cpu_percent), rank=6, right=True, floor=4),
        Column("HOST MEM", lambda u: size(u.host.memory_bytes), rank=10, right=True),
        Column("TIME", lambda u: elapsed(u.elapsed_seconds), rank=7, right=True),
        Column("COMMAND", _command, rank=4, elastic=24),
    ]  # fmt: skip
    if placed:
        columns.insert(-1, Column("WITHIN", _within, rank=9, elastic=10))
    return columns


def _word(use: Use, name: str) -> Text:
    value = getattr(use.process, name, None)
    return cells.unknown() if value is None else say(str(value))


def _kind(use: Use) -> Text:
    """C or G, as nvidia-smi has taught everyone."""
    if use.process is None:
        return Text()
    return say("G" if use.process.kind is ProcessKind.GRAPHICS else "C", "dim")


def _busy(use: Use) -> int | None:
    return use.process.utilization_percent if use.process else None


def _within(use: Use) -> Text:
    process = use.process
    return say((process and (process.job or process.container)) or "")


def _command(use: Use) -> Text:
    if use.process is None:
        return say("memory that no process explains", "yellow")
    return say(use.process.command or use.process.name or "–", "" if use.process.command else "dim")


def size(count: int | None) -> Text:
    return cells.unknown() if count is None else say(human_bytes(count))


def elapsed(seconds: float | None) -> Text:
    """`3:20:05`, `2d04h`: the way ps and squeue write it, because it sorts by eye."""
    if seconds is None:
        return cells.unknown()
    whole = int(seconds)
    days, rest = divmod(whole, 86400)
    if days:
        return say(f"{days}d{rest // 3600:02d}h")
    hours, rest = divmod(rest, 3600)
    return say(f"{hours}:{rest // 60:02d}:{rest % 60:02d}")


def uses_to_json(snapshot: Snapshot, found: list[Use]) -> wire.Json:
    return {
        "schema": SCHEMA,
        "node": snapshot.node,
        "at": snapshot.at,
        "simulated": snapshot.simulated,
        "processes": [_to_json(use) for use in found if use.process],
        "unattributed": [
            {**_place(use), "memory_bytes": use.memory_bytes} for use in found if not use.process
        ],
        "faults": [wire.fault_to_json(fault) for fault in snapshot.faults],
    }


def uses_to_csv(snapshot: Snapshot, found: list[Use]) -> str:
    """One row per process; the row of unexplained memory has no pid."""
    where = {"at": snapshot.at, "node": snapshot.node}
    rows = [{**where, **_csv_row(use)} for use in found]
    return csv_line(CSV) + "".join(csv_line([row.get(name) for name in CSV]) for row in rows)


def _csv_row(use: Use) -> wire.Json:
    """The vendor stands in each row because `sim` must be seen there too."""
    held = _to_json(use) if use.process else {"memory_bytes": use.memory_bytes}
    return {**_place(use), "vendor": use.entry.status.device.vendor, **held}


def _place(use: Use) -> wire.Json:
    return {"device": use.entry.status.device.uuid, "index": use.entry.status.device.index}


def _to_json(use: Use) -> wire.Json:
    assert use.process is not None
    return {
        **_place(use),
        **wire.process_to_json(use.process),
        "host_cpu_percent": use.host.cpu_percent,
        "host_memory_bytes": use.host.memory_bytes,
        "elapsed_seconds": use.elapsed_seconds,
    }
