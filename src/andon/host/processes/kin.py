"""How processes are related: owner, start time, session, group and container.

Only stat, status and cgroup are read: unlike the command line, they never wait for the memory
lock of the other process.
"""

import os
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache
from pathlib import Path

from andon.host.clock import boot_seconds
from andon.host.files import parse_uid, read
from andon.host.machine_id import boot_id
from andon.host.rules.attribution import belongs
from andon.host.rules.proc_stat import ENDED, Stat, parse_stat
from andon.host.users import user_name
from andon.model.lease import Kin, Owner, PidScope

_STAT_BYTES = 1024


def read_kin(pids: Iterable[int], containers: bool = False, root: str = "/") -> dict[int, Kin]:
    """Reads the relations of those processes that are visible."""
    found = ((pid, _kin(pid, containers, root.rstrip("/"))) for pid in set(pids))
    return {pid: kin for pid, kin in found if kin is not None}


def started_ticks(pid: int) -> int | None:
    """Returns the start of a process in ticks since boot; None if it exited or is a zombie."""
    stat = _stat(pid)
    return None if stat is None or stat.state in ENDED else stat.start_ticks


def uid_of(pid: int) -> int | None:
    """Returns the real uid of a process; None if it exited or is hidden."""
    return parse_uid(read(f"/proc/{pid}/status", 4096) or b"")


def ticks_now() -> int:
    """Returns the current time in ticks since boot; setting the clock does not change it."""
    return int(boot_seconds() * os.sysconf("SC_CLK_TCK"))


def group_members(groups: AbstractSet[int]) -> dict[int, tuple[Kin, ...]]:
    """Returns the visible members of process groups, from one pass over all processes."""
    found: dict[int, list[Kin]] = {}
    for pid in _pids() if groups else ():
        stat = _stat(pid)
        if stat is None or stat.group not in groups:
            continue
        uid = parse_uid(read(f"/proc/{pid}/status", 4096) or b"")
        if uid is not None:
            # In a container without an init a zombie is never reaped.
            ended = stat.state in ENDED
            member = Kin(pid, uid, stat.start_ticks, stat.session, stat.group, ended=ended)
            found.setdefault(stat.group, []).append(member)
    return {group: tuple(members) for group, members in found.items()}


def session_members(session: int) -> tuple[Kin, ...]:
    """The visible processes of a session that have not ended, from one pass over all processes."""
    stats = ((pid, _stat(pid)) for pid in _pids())
    found = (_kin(pid, False, "") for pid, stat in stats if stat and stat.session == session)
    return tuple(kin for kin in found if kin is not None and not kin.ended)


def container_members(containers: AbstractSet[str]) -> dict[str, tuple[Kin, ...]]:
    """Returns the visible processes of these containers, from one pass over all processes."""
    found: dict[str, list[Kin]] = {}
    for pid in _pids() if containers else ():
        kin = _kin(pid, True, "")
        if kin is not None and kin.container in containers:
            found.setdefault(kin.container or "", []).append(kin)
    return {container: tuple(members) for container, members in found.items()}


def container_lives(containers: Iterable[str]) -> bool:
    """Whether a process of one of these containers is alive, according to the kernel."""
    found = container_members(frozenset(containers))
    return any(not one.ended for members in found.values() for one in members)


def _pids() -> Iterator[int]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - only names
        if name.isdecimal():
            yield int(name)


def pid_scope() -> PidScope:
    """Returns the boot and the pid namespace of this process; a forked child may have been moved
    since."""
    return _pid_scope(os.getpid())


@lru_cache(maxsize=2)
def _pid_scope(pid: int) -> PidScope:
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return PidScope(boot_id())
    return PidScope(boot_id(), namespace)


def myself(pid: int | None = None) -> Owner:
    """Returns this process, or a child that will hold the lease, as a lease's owner."""
    pid = os.getpid() if pid is None else pid
    where = belongs(os.fsdecode(read("/proc/self/cgroup", 16384) or b""))
    uid = os.getuid()
    return Owner(
        uid=uid,
        user=user_name(uid),
        pid=pid,
        started_ticks=started_ticks(pid) or 0,
        session=os.getsid(0),
        boot=pid_scope().boot,
        pid_namespace=pid_scope().pid_namespace,
        container=where.container.id if where.container else None,
    )


def _kin(pid: int, containers: bool, root: str) -> Kin | None:
    folder = f"{root}/proc/{pid}"
    stat = _stat(pid, root)
    uid = parse_uid(read(f"{folder}/status", 4096) or b"")
    if stat is None or uid is None:
        return None
    container = None
    if containers:
        where = belongs(os.fsdecode(read(f"{folder}/cgroup", 16384) or b""))
        container = where.container.id if where.container else None
    ended = stat.state in ENDED
    return Kin(pid, uid, stat.start_ticks, stat.session, stat.group, container, ended)


def _stat(pid: int, root: str = "") -> Stat | None:
    return parse_stat(read(f"{root}/proc/{pid}/stat", _STAT_BYTES) or b"")
