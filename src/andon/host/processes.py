"""What the operating system knows about a process: its start, name, user and command line."""

import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from andon.core.redaction import printable, redact
from andon.host.liveness import Liveness
from andon.model.device import Process

Stamp = tuple[float, bytes]
"""When a process started, as the system counts it, and its short name, which changes with exec."""

LOOK_AGAIN_SECONDS = 30.0
_COMMAND_BYTES = 16384  # twice what a redacted command line can use
_NAME_CHARACTERS = 64
_MAX_USERS = 1024


@dataclass(frozen=True, slots=True)
class HostUse:
    """What a process has taken from the host so far: two looks make a rate."""

    cpu_seconds: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What does not change while a process runs; None where it may not be read."""

    started: float
    name: str | None = None
    user: str | None = None
    command: str | None = None
    settled: bool = True  # False: look again, it may have been on its way into its program


@dataclass(frozen=True, slots=True)
class Stat:
    """The part of /proc/<pid>/stat that is used."""

    comm: bytes
    state: bytes
    user_ticks: int
    system_ticks: int
    start_ticks: int
    resident_pages: int


class _Source(Protocol):
    def stamp(self, pid: int) -> Stamp | None: ...
    def facts(self, pid: int, stamp: Stamp) -> Facts: ...
    def use(self, pid: int) -> HostUse | None: ...


class ProcessTable:
    """Fills in what the vendor's library did not say. One table per thread: it keeps a cache.

    The same processes as last time, all alive, cost one poll and get the same answer; every few
    seconds, and when one came or ended, each costs one read of its stat. Its other facts are read
    once. What was not asked for in the latest call is forgotten. A process that has ended, is
    hidden (hidepid) or lives in another pid namespace keeps its None.
    """

    def __init__(self, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        self._source = _source(root)
        self._known: dict[int, tuple[Stamp, Facts]] = {}
        # Descriptors are of this system's processes, and mean nothing for another root's.
        self._liveness = Liveness() if root == Path("/") else None
        self._clock = clock
        self._again = -math.inf
        self._asked: tuple[Process, ...] = ()
        self._answer: tuple[Process, ...] = ()

    def attribute(self, processes: Iterable[Process]) -> tuple[Process, ...]:
        """The same processes in the same order; what is already filled in stays."""
        asked = tuple(processes)
        if asked == self._asked and self._nothing_happened():
            return self._answer
        self._asked, self._again = asked, -math.inf
        # Watched before they are looked at: one that ends in between is noticed next time.
        if self._liveness and self._liveness.watch({process.pid for process in asked}):
            self._again = self._clock() + LOOK_AGAIN_SECONDS
        latest: dict[int, tuple[Stamp, Facts]] = {}
        self._answer = tuple(self._attributed(process, latest) for process in asked)
        self._known = latest
        if not all(facts.settled for _, facts in latest.values()):
            self._again = -math.inf
        return self._answer

    def _nothing_happened(self) -> bool:
        """All alive, and looked at not long ago: a name changes only by exec, which is rare."""
        if self._liveness is None or self._clock() >= self._again:
            return False
        return self._liveness.all_live()

    def usage(self, pids: Iterable[int]) -> Mapping[int, HostUse]:
        """CPU time and resident memory of those that can be read."""
        uses = ((pid, self._source.use(pid)) for pid in pids)
        return {pid: use for pid, use in uses if use is not None}

    def _attributed(self, process: Process, latest: dict[int, tuple[Stamp, Facts]]) -> Process:
        if None not in (process.started, process.name, process.user, process.command):
            return process
        facts = self._facts(process.pid, latest)
        if facts is None or process.started not in (None, facts.started):
            return process  # gone, or the pid is somebody else's by now
        return replace(
            process,
            started=facts.started,
            name=facts.name if process.name is None else process.name,
            user=facts.user if process.user is None else process.user,
            command=facts.command if process.command is None else process.command,
        )

    def _facts(self, pid: int, latest: dict[int, tuple[Stamp, Facts]]) -> Facts | None:
        if pid in latest:  # one process on several devices
            return latest[pid][1]
        stamp = self._source.stamp(pid)
        if stamp is None:
            return None
        known = self._known.get(pid)
        if known is None or known[0] != stamp or not known[1].settled:
            known = stamp, self._source.facts(pid, stamp)
            if self._source.stamp(pid) != stamp:  # ended while it was read: half may be another's
                return None
        latest[pid] = known
        return known[1]


def sees_host_pids(root: Path = Path("/")) -> bool:
    """Whether /proc shows the host's own pids; NVML's pids mean nothing where it does not.

    Pid 2 of the first namespace is the kernel's kthreadd, and of no other.
    """
    return _read(f"{root}/proc/2/comm", 64) == b"kthreadd\n"


# Linux.


class _Proc:
    """Linux's /proc, read without pathlib because it is read every tick."""

    def __init__(self, root: Path) -> None:
        self._proc = f"{str(root).rstrip('/')}/proc"
        self._users = _Users(root)
        self._boot: float | None = None
        self._ticks_per_second = os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")

    def stamp(self, pid: int) -> Stamp | None:
        content = _read(f"{self._proc}/{pid}/stat", 1024)
        return None if content is None else parse_stamp(content)

    def facts(self, pid: int, stamp: Stamp) -> Facts:
        folder = f"{self._proc}/{pid}"
        ticks, comm = stamp
        line = _read(f"{folder}/cmdline", _COMMAND_BYTES)
        arguments = None if line is None else split_command(line)
        short = os.fsdecode(comm)
        uid = parse_uid(_read(f"{folder}/status", 4096) or b"")
        return Facts(
            started=round(self._boot_time() + ticks / self._ticks_per_second, 2),
            name=process_name(short, arguments or (), _link_name(f"{folder}/exe")),
            user=None if uid is None else self._users.name(uid),
            command=_command(short, arguments),
            settled=arguments != (),  # empty for a moment during exec, and for ever in a zombie
        )

    def use(self, pid: int) -> HostUse | None:
        stat = parse_stat(_read(f"{self._proc}/{pid}/stat", 1024) or b"")
        if stat is None:
            return None
        ticks = stat.user_ticks + stat.system_ticks
        return HostUse(ticks / self._ticks_per_second, stat.resident_pages * self._page_bytes)

    def _boot_time(self) -> float:
        """Read once, so that a clock that is set later does not move a process's start."""
        if self._boot is None:
            self._boot = parse_boot_time(_read(f"{self._proc}/stat", 1 << 20) or b"")
        return self._boot


def parse_stat(content: bytes) -> Stat | None:
    """The short name stands in parentheses and may hold spaces and parentheses itself."""
    head, _, tail = content.rpartition(b") ")
    values = tail.split()
    try:
        return Stat(
            head.partition(b"(")[2],
            values[0],
            int(values[11]),
            int(values[12]),
            int(values[19]),
            int(values[21]),
        )
    except (IndexError, ValueError):
        return None


def parse_stamp(content: bytes) -> Stamp | None:
    """The same content, but only what tells one process from the next: it is read every tick."""
    head, _, tail = content.rpartition(b") ")
    try:
        return int(tail.split(b" ", 20)[19]), head.partition(b"(")[2]
    except (IndexError, ValueError):
        return None


def parse_boot_time(content: bytes) -> float:
    """The `btime` line of /proc/stat: UTC seconds; 0 where there is none."""
    for line in content.splitlines():
        if line.startswith(b"btime "):
            return float(line[6:])
    return 0.0


def parse_uid(content: bytes) -> int | None:
    """The real user of /proc/<pid>/status; the folder's owner is root for a guarded process."""
    for line in content.splitlines():
        if line.startswith(b"Uid:\t"):
            return int(line.split()[1])
    return None


def split_command(content: bytes) -> tuple[str, ...]:
    """The arguments of /proc/<pid>/cmdline; empty for a zombie and a kernel thread.

    A process that rewrote its title leaves one text with padding behind it.
    """
    text = os.fsdecode(content).rstrip("\0")
    return tuple(text.split("\0")) if text else ()


def process_name(comm: str, arguments: tuple[str, ...], exe: str | None) -> str:
    """The program's own name: comm is cut at 15 characters and is often a thread's name instead."""
    first = arguments[0] if arguments else ""
    is_title = any(c.isspace() for c in first)
    name = "" if is_title else first.rpartition("/")[2].lstrip("-")  # -bash is a login shell
    if not name and " " not in comm and first.startswith(comm):
        name = comm  # a title such as "nginx: worker process"
    return printable(name or exe or comm)[:_NAME_CHARACTERS]


def _command(comm: str, arguments: tuple[str, ...] | None) -> str | None:
    """A process without arguments (a zombie, a kernel thread) is shown as `ps` does: [name]."""
    if arguments is None:
        return None
    return redact(arguments) if arguments else f"[{printable(comm)}]"


def _link_name(path: str) -> str | None:
    try:
        target = str(Path(path).readlink())
    except OSError:  # another user's process
        return None
    return target.removesuffix(" (deleted)").rpartition("/")[2] or None


def _read(path: str, limit_bytes: int) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        content = piece = os.read(descriptor, limit_bytes)
        while piece and len(content) >= 4096 and len(content) < limit_bytes:
            piece = os.read(descriptor, limit_bytes - len(content))  # /proc answers page by page
            content += piece
    except OSError:  # it ended after it was opened
        return None
    finally:
        os.close(descriptor)
    return content


class _Users:
    """Names of users, asked once each; a name service may be slow."""

    def __init__(self, root: Path) -> None:
        self._passwd = None if str(root) == "/" else f"{root}/etc/passwd"
        self._names: dict[int, str] = {}

    def name(self, uid: int) -> str:
        if uid not in self._names:
            if len(self._names) >= _MAX_USERS:
                self._names.clear()
            self._names[uid] = self._look_up(uid) or str(uid)
        return self._names[uid]

    def _look_up(self, uid: int) -> str | None:
        if self._passwd is not None:  # the host's users are not this container's
            return parse_passwd(_read(self._passwd, 1 << 20) or b"").get(uid)
        import pwd

        try:
            return pwd.getpwuid(uid).pw_name
        except (KeyError, OSError):
            return None


def parse_passwd(content: bytes) -> dict[int, str]:
    names: dict[int, str] = {}
    for line in os.fsdecode(content).splitlines():
        parts = line.split(":")
        if len(parts) > 2 and parts[2].isdecimal():
            names.setdefault(int(parts[2]), printable(parts[0]))
    return names


# Everything else.


class _Psutil:
    """Systems without /proc."""

    def stamp(self, pid: int) -> Stamp | None:
        import psutil

        try:
            return psutil.Process(pid).create_time(), b""
        except (psutil.Error, OSError, ValueError):
            return None

    def facts(self, pid: int, stamp: Stamp) -> Facts:
        import psutil

        started = round(stamp[0], 2)
        try:
            known = psutil.Process(pid).as_dict(["name", "username", "cmdline"])
        except (psutil.Error, OSError, ValueError):
            return Facts(started)
        arguments, name = known["cmdline"], known["name"]
        command = None if arguments is None else _command(name or "", tuple(arguments))
        return Facts(started, name and printable(name), known["username"], command)

    def use(self, pid: int) -> HostUse | None:
        import psutil

        try:
            process = psutil.Process(pid)
            times = process.cpu_times()
            return HostUse(times.user + times.system, process.memory_info().rss)
        except (psutil.Error, OSError, ValueError):
            return None


def _source(root: Path) -> _Source:
    return _Proc(root) if sys.platform.startswith("linux") else _Psutil()
