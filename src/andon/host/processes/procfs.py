"""Reads processes from Linux's /proc, without pathlib because it is read at every sample."""

import os
import time
from collections.abc import Container, Mapping
from itertools import islice
from pathlib import Path

from msgspec import Struct

from andon.host.files import parse_uid, read
from andon.host.processes.handles import ProcessHandle, stat_of
from andon.host.rules.attribution import (
    RAY_CONFIG,
    RAY_JOB,
    ProcessMembership,
    belongs,
    describe,
    ray_job,
    slurm_from_environment,
)
from andon.host.rules.proc_stat import ENDED, KERNEL_THREAD, parse_stamp, parse_stat
from andon.model.programs import program_of
from andon.model.redaction import CUT, redact
from andon.units import printable

Stamp = tuple[float, bytes, int]
"""Start time of a process in the system's units; its short name, which changes with exec; and a
count of file openings, because two processes can have the same pid within one clock tick."""

_STAT_BYTES = 1024
_MAX_OPEN = 64  # per table, and there is a table per card
_COMMAND_BYTES = 16384  # twice what a redacted command line can use
_ENVIRONMENT_BYTES = 65536
_NAME_CHARACTERS = 64
_MAX_USERS = 1024
_MAX_FILES = 16384  # of one process: reading its descriptors must not take seconds
_FIRST_PID_NAMESPACE = "pid:[4026531836]"  # fixed in the kernel's proc_ns.h
_DEVICE_FILES = ("/dev/nvidia", "/dev/dri/", "/dev/kfd", "/dev/dxg", "/dev/accel")


class ProcessCounters(Struct, frozen=True):
    """CPU time and memory of a process so far; two readings give a rate."""

    cpu_seconds: float
    memory_bytes: int


class ProcessFacts(Struct, frozen=True):
    """What does not change while a process runs; None if it cannot be read."""

    started: float
    name: str | None = None
    user: str | None = None
    command: str | None = None
    settled: bool = True  # False: read again, it may have been in the middle of exec


class ProcessParent(Struct, frozen=True):
    """A process and the one that started it."""

    pid: int
    parent: int
    name: str


class ProcFolder:
    """The processes under one root."""

    def __init__(self, root: Path) -> None:
        self._root = str(root).rstrip("/")
        self._proc = f"{self._root}/proc"
        self._users = _Users(root)
        self._opened: dict[int, tuple[int, int]] = {}
        self._openings = 0
        self._boot: float | None = None
        self._ticks_per_second = os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")

    def stamp(self, pid: int) -> Stamp | None:
        """Returns what identifies a process; this is the hot path.

        The file stays open: reading it again costs half as much as opening it, and it always
        refers to the same process even if the pid is reused.
        """
        opened = self._opened.get(pid)
        if opened is not None:
            try:
                return parse_stamp(os.pread(opened[0], _STAT_BYTES, 0), opened[1])
            except OSError:  # it has ended, and the pid may be reused
                self._drop(pid)
        return self._first_stamp(pid)

    def _first_stamp(self, pid: int) -> Stamp | None:
        try:
            descriptor = os.open(f"{self._proc}/{pid}/stat", os.O_RDONLY)
        except (OSError, ValueError):
            return None
        if len(self._opened) < _MAX_OPEN:
            self._openings += 1
            self._opened[pid] = descriptor, self._openings
            return parse_stamp(_read_on(descriptor), self._openings)
        with os.fdopen(descriptor, "rb", buffering=0):
            return parse_stamp(_read_on(descriptor))

    def keep(self, pids: Container[int]) -> None:
        """Closes the files of all other processes."""
        for pid in [pid for pid in self._opened if pid not in pids]:
            self._drop(pid)

    def _drop(self, pid: int) -> None:
        os.close(self._opened.pop(pid)[0])

    def __del__(self) -> None:
        self.keep(())

    def facts(self, pid: int, stamp: Stamp) -> ProcessFacts:
        folder = f"{self._proc}/{pid}"
        ticks, comm, _ = stamp
        line = read(f"{folder}/cmdline", _COMMAND_BYTES)
        arguments = None if line is None else split_command(whole_arguments(line, _COMMAND_BYTES))
        short = os.fsdecode(comm)
        uid = parse_uid(read(f"{folder}/status", 4096) or b"")
        return ProcessFacts(
            started=round(self._boot_time() + ticks / self._ticks_per_second, 2),
            name=process_name(short, arguments or (), _link_name(f"{folder}/exe")),
            user=None if uid is None else self._users.name(uid),
            command=command_line(short, arguments),
            settled=arguments != (),  # empty for a moment during exec, and always for a zombie
        )

    def belonging(self, pid: int) -> ProcessMembership:
        """Finds what a process belongs to from its cgroups; for Slurm also from its environment, if
        this user may read it, and for Ray from that and its title.

        Slurm with proctrack/linuxproc leaves no trace in the cgroups, Ray never does.
        """
        found = belongs(os.fsdecode(read(f"{self._proc}/{pid}/cgroup", 16384) or b""))
        if found.slurm is not None:
            return found
        content = read(f"{self._proc}/{pid}/environ", _ENVIRONMENT_BYTES) or b""
        variables = job_variables(content)
        slurm = slurm_from_environment(variables)
        argv = split_command(read(f"{self._proc}/{pid}/cmdline", _COMMAND_BYTES) or b"")
        ray = ray_job(argv[0] if argv else "", variables)
        if slurm is None and ray is None:
            return found
        where = found.container, found.pod, slurm, found.unit, found.session
        return ProcessMembership(*where, ray)

    def use(self, pid: int) -> ProcessCounters | None:
        stat = parse_stat(read(f"{self._proc}/{pid}/stat", _STAT_BYTES) or b"")
        if stat is None:
            return None
        ticks = stat.user_ticks + stat.system_ticks
        return ProcessCounters(
            ticks / self._ticks_per_second, stat.resident_pages * self._page_bytes
        )

    def link(self, pid: int) -> ProcessParent | None:
        stat = parse_stat(read(f"{self._proc}/{pid}/stat", _STAT_BYTES) or b"")
        return (
            None
            if stat is None
            else ProcessParent(pid, stat.parent, printable(os.fsdecode(stat.comm)))
        )

    def holds_a_device(self, pid: int) -> bool:
        """Whether it has a GPU's device file open, as far as this user can see."""
        folder = f"{self._proc}/{pid}/fd"
        try:
            with os.scandir(folder) as entries:
                numbers = [entry.name for entry in islice(entries, _MAX_FILES)]
        except OSError:
            return False
        return any(_link(f"{folder}/{number}").startswith(_DEVICE_FILES) for number in numbers)

    def sees_host_pids(self) -> bool:
        """Whether /proc shows the host's pids: only in the first namespace is pid 2 the kernel's
        kthreadd.

        If hidepid hides it, the number of this process's own namespace decides.
        """
        if read(f"{self._proc}/2/comm", 64) == b"kthreadd\n":
            return True
        return not self._root and _link("/proc/self/ns/pid") == _FIRST_PID_NAMESPACE

    def hides_pids(self) -> bool:
        """Whether /proc is mounted with hidepid, which hides other users' processes."""
        return parse_hidepid(read(f"{self._proc}/mounts", 1 << 20) or b"", self._proc)

    def _boot_time(self) -> float:
        """The boot time, read once, so that setting the clock later does not change start times."""
        if self._boot is None:
            self._boot = parse_boot_time(read(f"{self._proc}/stat", 1 << 20) or b"")
        return self._boot


def parse_boot_time(content: bytes) -> float:
    """Parses the `btime` line of /proc/stat: UTC seconds; 0 if missing."""
    for line in content.splitlines():
        if line.startswith(b"btime "):
            return float(line[6:])
    return 0.0


def parse_hidepid(mounts: bytes, folder: str) -> bool:
    """Whether the last mount on this folder hides processes; 0 and `off` do not."""
    hides = False
    for line in os.fsdecode(mounts).splitlines():
        parts = line.split(" ")
        if len(parts) > 3 and parts[1] == folder and parts[2] == "proc":
            options = dict(o.partition("=")[::2] for o in parts[3].split(","))
            hides = options.get("hidepid", "0") not in ("0", "off")
    return hides


_RAY = (f"{RAY_JOB}=".encode(), f"{RAY_CONFIG}=".encode())


def job_variables(content: bytes) -> Mapping[str, str]:
    """Returns the variables that identify a Slurm or Ray job; no others are kept."""
    wanted = (b"SLURM_JOB_ID=", b"SLURM_STEP_ID=", b"SLURMD_NODENAME=", *_RAY)
    chosen = [item for item in content.split(b"\0") if item.startswith(wanted)]
    return dict(os.fsdecode(item).split("=", 1) for item in chosen)


def whole_arguments(content: bytes, limit_bytes: int) -> bytes:
    """Returns what was read up to a limit, without an argument that the limit may have cut.

    Half a secret may no longer look like one.
    """
    if len(content) < limit_bytes:
        return content
    end = max(content.rfind(blank) for blank in (b"\0", b" ", b"\n", b"\t"))
    return content[: max(0, end)] + f"\0{CUT}".encode()


def split_command(content: bytes) -> tuple[str, ...]:
    """Returns the arguments of /proc/<pid>/cmdline; empty for a zombie and a kernel thread.

    A process that rewrote its title leaves one text followed by padding.
    """
    text = os.fsdecode(content).rstrip("\0")
    return tuple(text.split("\0")) if text else ()


def process_name(comm: str, arguments: tuple[str, ...], exe: str | None) -> str:
    """Returns the program's name: comm is cut at 15 characters and is often a thread's name."""
    first = arguments[0] if arguments else ""
    is_title = any(c.isspace() for c in first)
    name = "" if is_title else first.rpartition("/")[2].lstrip("-")  # -bash is a login shell
    if not name and " " not in comm and first.startswith(comm):
        name = comm  # a title such as "nginx: worker process"
    return printable(name or exe or comm)[:_NAME_CHARACTERS]


def command_line(comm: str, arguments: tuple[str, ...] | None) -> str | None:
    """Returns the command line; a process without arguments (a zombie, a kernel thread) is shown
    as in `ps`: [name]."""
    if arguments is None:
        return None
    return redact(arguments) if arguments else f"[{printable(comm)}]"


def parse_passwd(content: bytes) -> dict[int, str]:
    names: dict[int, str] = {}
    for line in os.fsdecode(content).splitlines():
        parts = line.split(":")
        if len(parts) > 2 and parts[2].isdecimal():
            names.setdefault(int(parts[2]), printable(parts[0]))
    return names


def _read_on(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _STAT_BYTES)
    except OSError:  # it ended after it was opened
        return b""


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:  # another user's process, or it has exited
        return ""


def _link_name(path: str) -> str | None:
    return _link(path).removesuffix(" (deleted)").rpartition("/")[2] or None


class _Users:
    """User names, each looked up once; a name service may be slow."""

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
            return parse_passwd(read(self._passwd, 1 << 20) or b"").get(uid)
        import pwd

        try:
            return printable(pwd.getpwuid(uid).pw_name)
        except (KeyError, OSError):
            return None


# Which process started which, of all that are visible; and what is known about one of them.


class HeldFacts(Struct, frozen=True):
    """The facts in /proc about a process while it is held."""

    facts: ProcessFacts
    program: str
    age_seconds: float
    kernel_thread: bool
    container: str | None
    job: str | None


def parents() -> dict[int, int]:
    """Returns the parent of every visible process that has not ended."""
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - only names
        if name.isdecimal() and (stat := stat_of(int(name))) and stat.state not in ENDED:
            found[int(name)] = stat.parent
    return found


def descendants(pid: int, parents: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    """Returns every process below this one with its depth, each after its parent.

    Signalled in that order, a parent has no time to start its children again.
    """
    below: dict[int, list[int]] = {}
    for child, parent in sorted(parents.items()):
        below.setdefault(parent, []).append(child)
    found: dict[int, int] = {}
    level, depth = [pid], 0
    while level:
        depth += 1
        level = [c for p in level for c in below.get(p, ()) if c != pid and c not in found]
        found.update(dict.fromkeys(level, depth))
    return tuple(found.items())


def ancestry(pid: int) -> frozenset[int]:
    """Returns a process and its ancestors."""
    found: set[int] = set()
    while pid > 0 and pid not in found:
        found.add(pid)
        stat = stat_of(pid)
        pid = 0 if stat is None else stat.parent
    return frozenset(found)


def short_name(pid: int) -> str:
    stat = stat_of(pid)
    return "?" if stat is None else printable(os.fsdecode(stat.comm))


def read_facts(handle: ProcessHandle) -> HeldFacts:
    """Reads the facts of a held process; a later one with its pid has another start."""
    folder, stat = ProcFolder(Path("/")), handle.stat
    facts = folder.facts(handle.pid, (stat.start_ticks, stat.comm, 0))
    belonging = folder.belonging(handle.pid)
    return HeldFacts(
        facts,
        program_of(facts.command, facts.name) or printable(os.fsdecode(stat.comm)),
        max(0.0, time.time() - facts.started),
        bool(stat.flags & KERNEL_THREAD),
        describe(belonging),
        belonging.job,
    )
