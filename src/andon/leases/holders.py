"""Who holds a lock of the book: what the kernel says of its processes, not what a file says."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from andon.core.processes.proc_stat import parse_stat
from andon.core.sharing.holdings import Here
from andon.core.sharing.lockers import Locker, are_strangers
from andon.errors import AndonError, Conflict, Gone
from andon.host.kin import started_ticks, user_name
from andon.kernel_files import parse_uid, read
from andon.leases.places import LEASES
from andon.model.work import Lease, Owner

MOST_DESCRIPTORS = 65_536
_FDINFO_BYTES, _STATUS_BYTES, _STAT_BYTES = 4096, 4096, 1024
_STOPPED = (b"T", b"t")  # by a signal, by a debugger

Place = tuple[int, int, int]


class LockTable:
    """The kernel's list of locks, read once and only if it is needed."""

    def __init__(self) -> None:
        self._found: Mapping[Place, list[int]] | None = None

    def lockers(self, facts: os.stat_result) -> list[Locker]:
        """Who took the exclusive lock of a file; none where the kernel does not show it."""
        if self._found is None:
            self._found = parse_locks(_read_locks())
        place = os.major(facts.st_dev), os.minor(facts.st_dev), facts.st_ino
        return [Locker(pid, uid_of(pid)) for pid in self._found.get(place, ())]


def parse_locks(text: str) -> dict[Place, list[int]]:
    """`7: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`; one that waits begins with `7: ->`."""
    found: dict[Place, list[int]] = {}
    for line in text.splitlines():
        parts = line.split()
        if len(parts) >= 6 and parts[1] == "FLOCK" and parts[3] == "WRITE":
            with suppress(ValueError):
                major, minor, inode = parts[5].split(":")
                pid, place = int(parts[4]), (int(major, 16), int(minor, 16), int(inode))
                found.setdefault(place, []).append(pid)
    return found


def strangers(
    book: Path, name: str, lease: Lease, uid: int, here: Here, table: LockTable
) -> tuple[Locker, ...]:
    """The other users' processes that keep a lease's file locked although its holder is gone.

    Empty where the lock counts. The kernel's list is read only if the named holder is not alive.
    """
    owner = lease.owner
    if owner.boot != here.boot or owner.pid_namespace != here.pid_namespace:
        return ()
    if _may_live(owner, uid):
        return ()
    try:
        found = table.lockers((book / LEASES / name).lstat())
    except OSError:
        return ()
    return tuple(found) if are_strangers(lease, uid, found) else ()


def _may_live(owner: Owner, uid: int) -> bool:
    """Whether the named holder lives; asked for every lease of every look, so it has to be cheap.

    A process of the file's own user will do: no other user can take its number for such a one.
    """
    try:
        whose = os.stat(f"/proc/{owner.pid}").st_uid  # noqa: PTH116 - a tenth of the price
    except OSError:
        return False
    return whose == uid or started_ticks(owner.pid) == owner.started_ticks


def open_holder(lease: Lease, file: Path, uid: int) -> int:
    """A descriptor (pidfd) of the process that is proved to hold a lease; else an error.

    A file may name any process. It is believed only where that process began when the file says,
    belongs to the file's owner, and holds the lock of this very file. Whatever gets the number
    later cannot be meant: the descriptor is opened first.
    """
    owner = lease.owner
    gone = Gone(
        f"the holder of lease {lease.id} (pid {owner.pid}) is gone",
        hint="its devices are free once its work has ended",
    )
    try:
        facts, descriptor = file.lstat(), os.pidfd_open(owner.pid)
    except (OSError, OverflowError, ValueError) as exc:
        raise gone from exc
    try:
        if started_ticks(owner.pid) != owner.started_ticks:
            raise gone
        if (doubt := _doubt(lease, owner, file.name, facts, uid)) is not None:
            raise doubt
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, by a signal or a debugger, and so handles nothing."""
    return state_of(pid) in _STOPPED


def state_of(pid: int) -> bytes:
    """The state of /proc/<pid>/stat: R, S, D, T, t, Z; nothing where there is no such process."""
    stat = parse_stat(read(f"/proc/{pid}/stat", _STAT_BYTES) or b"")
    return b"" if stat is None else stat.state


def uid_of(pid: int) -> int | None:
    return parse_uid(read(f"/proc/{pid}/status", _STATUS_BYTES) or b"")


def described(locker: Locker) -> str:
    owner = "" if locker.uid is None else f" ({user_name(locker.uid)})"
    return f"pid {locker.pid}{owner}"


def _doubt(
    lease: Lease, owner: Owner, name: str, facts: os.stat_result, uid: int
) -> AndonError | None:
    """Why the process that a file names is not taken for its holder; None where it is proved."""
    found = uid_of(owner.pid)
    if found != uid:
        whose = "another user" if found is None else user_name(found)
        return Conflict(
            f"lease {lease.id} of {user_name(uid)} names pid {owner.pid}, which is {whose}'s",
            hint="nothing was ended; its file can be removed by root or its owner",
        )
    held = _holds(owner.pid, name, facts)
    if held is None:
        took = [locker.pid for locker in LockTable().lockers(facts)]
        held = True if owner.pid in took else None
    if held:
        return None
    known = "does not hold it" if held is False else "cannot be verified to hold it"
    return Conflict(
        f"lease {lease.id} names pid {owner.pid}, which {known}",
        hint="release it where it was started, or as root",
    )


def _holds(pid: int, name: str, facts: os.stat_result) -> bool | None:
    """Whether a process has the file open with its exclusive lock; None where that is hidden."""
    folder = f"/proc/{pid}"
    try:
        numbers = os.listdir(f"{folder}/fd")  # noqa: PTH208 - names alone
        for number in numbers[:MOST_DESCRIPTORS]:
            if _is_locked_file(folder, number, name, facts):
                return True
    except OSError:
        return None
    return False


def _is_locked_file(folder: str, number: str, name: str, facts: os.stat_result) -> bool:
    """The name is compared first: looking at an unknown file may hang, at a name never does."""
    with suppress(FileNotFoundError):
        target = os.readlink(f"{folder}/fd/{number}").removesuffix(" (deleted)")  # noqa: PTH115
        if target.rpartition("/")[2] != name:
            return False
        locked = b"FLOCK" in _locks_of(read(f"{folder}/fdinfo/{number}", _FDINFO_BYTES) or b"")
        same = os.path.samestat(os.stat(f"{folder}/fd/{number}"), facts)  # noqa: PTH116
        return locked and same
    return False


def _locks_of(content: bytes) -> bytes:
    lines = [line for line in content.splitlines() if line.startswith(b"lock:")]
    return b"\n".join(line for line in lines if b" WRITE " in line)


def _read_locks() -> str:
    try:
        return Path("/proc/locks").read_text("ascii", errors="replace")
    except OSError:
        return ""
