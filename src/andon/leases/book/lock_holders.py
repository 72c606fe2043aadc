"""Who holds a lock in the book, according to the kernel and not to the file; the grants' lock."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from andon.errors import AndonError, Conflict, Gone
from andon.host.files import lock, read, unlock
from andon.host.processes.handles import ProcessHandle
from andon.host.processes.kin import pid_scope, started_ticks, ticks_now, uid_of
from andon.host.users import user_name
from andon.leases.book.files import open_folder
from andon.leases.book.locks import FileKey, holders_of, key_of, parse_locks, read_locks
from andon.leases.book.places import LEASES
from andon.leases.rules.validity import Locker, are_strangers
from andon.model.lease import Lease, Owner
from andon.units import human_seconds

MOST_DESCRIPTORS = 65_536
MOST_HEIRS = 8
_FDINFO_BYTES = 4096
# A holder is started before the lease is granted, and gets the lock once it can read its socket:
# it may take that long on a busy machine. Until then the program alone has it.
TAKEN_WITHIN_SECONDS, TAKEN_PAUSE_SECONDS = 5.0, 0.05


class LockTable:
    """The kernel's list of locks, read once and only if needed."""

    def __init__(self) -> None:
        self._found: Mapping[FileKey, list[int]] | None = None

    def lockers(self, facts: os.stat_result) -> list[Locker]:
        """Returns who took a file's exclusive lock; empty if the kernel does not show it."""
        if self._found is None:
            self._found = parse_locks(read_locks() or "")
        return [Locker(pid, uid_of(pid)) for pid in self._found.get(key_of(facts), ())]


def strangers(
    book: Path, name: str, lease: Lease, uid: int, table: LockTable
) -> tuple[Locker, ...]:
    """Returns other users' processes that keep a lease's file locked although its holder has
    exited.

    Empty if the lock counts. The kernel's list is read only if the named holder is not alive.
    """
    owner, scope = lease.owner, pid_scope()
    if owner.boot != scope.boot or owner.pid_namespace != scope.pid_namespace:
        return ()
    if _may_live(owner, uid):
        return ()
    try:
        found = table.lockers((book / LEASES / name).lstat())
    except OSError:
        return ()
    return tuple(found) if are_strangers(lease, uid, found) else ()


def _may_live(owner: Owner, uid: int) -> bool:
    """Whether the named holder is alive; called for every lease in every reading, so it is cheap.

    Any process of the file's user with that pid will do: no other user can fake one.
    """
    try:
        whose = os.stat(f"/proc/{owner.pid}").st_uid  # noqa: PTH116 - a tenth of the cost
    except OSError:
        return False
    return whose == uid or started_ticks(owner.pid) == owner.started_ticks


def open_holder(lease: Lease, file: Path, uid: int) -> ProcessHandle:
    """Opens the process that is proved to hold a lease; raises an error if none is.

    A file may name any process. It is trusted only if that process started when the file says,
    belongs to the file's owner, and holds the lock of this same file. A later process with the
    same pid cannot be meant: the descriptor is opened first.
    """
    owner = lease.owner
    try:
        facts, handle = file.lstat(), ProcessHandle.open(owner.pid, owner.started_ticks)
    except (OSError, Gone) as exc:
        raise Gone(
            f"the holder of lease {lease.id} (pid {owner.pid}) has exited",
            hint=f"its devices become available when its job ends{_heirs(file, uid)}",
        ) from exc
    try:
        if (doubt := _doubt(lease, owner, file.name, facts, uid)) is not None:
            raise doubt
    except BaseException:
        handle.close()
        raise
    return handle


def _is_starting(owner: Owner) -> bool:
    age_ticks = ticks_now() - owner.started_ticks
    return age_ticks < TAKEN_WITHIN_SECONDS * os.sysconf("SC_CLK_TCK")


def _heirs(file: Path, uid: int) -> str:
    """Returns the processes of the lease's user that have inherited its lock, for a hint."""
    with suppress(OSError):
        facts = file.lstat()
        pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
        found = [pid for pid in pids if uid_of(pid) == uid and _holds(pid, file.name, facts)]
        if found:
            return f"; to stop it: kill {' '.join(map(str, found[:MOST_HEIRS]))}"
    return ""


def described(locker: Locker) -> str:
    owner = "" if locker.uid is None else f" ({user_name(locker.uid)})"
    return f"pid {locker.pid}{owner}"


def _doubt(
    lease: Lease, owner: Owner, name: str, facts: os.stat_result, uid: int
) -> AndonError | None:
    """Why the process that a file names is not accepted as its holder; None if it is proved."""
    found = uid_of(owner.pid)
    if found != uid:
        whose = "another user" if found is None else user_name(found)
        return Conflict(
            f"lease {lease.id} of {user_name(uid)} names pid {owner.pid}, a process of {whose}",
            hint="nothing was stopped; root or its owner can remove its file",
        )
    while (held := _holds(owner.pid, name, facts)) is False and _is_starting(owner):
        time.sleep(TAKEN_PAUSE_SECONDS)
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
    """Whether a process has the file open with its exclusive lock; None if that is hidden."""
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
    """Whether a descriptor is the locked file; the name is compared first: stat of an unknown
    file may hang, reading a link never does."""
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


# One grant at a time: a lock on the book's directory, with a timeout.

TIMEOUT_SECONDS = 5.0
MOST_NAMED = 3
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.0005, 0.03


@contextmanager
def mutex(books: Sequence[Path], timeout_seconds: float = TIMEOUT_SECONDS) -> Iterator[None]:
    """Holds every book at once. While another process has one of them none is held: a book that
    stays locked does not lock the others."""
    end, pause = time.monotonic() + timeout_seconds, FIRST_PAUSE_SECONDS
    while True:
        with ExitStack() as held:
            locked = next((p for p in books if not held.enter_context(_one(p))), None)
            if locked is None:
                yield
                return
        if time.monotonic() >= end:
            raise _stuck(locked, timeout_seconds)
        time.sleep(pause * (0.5 + os.urandom(1)[0] / 255))  # jitter, so that waiters do not collide
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)


@contextmanager
def _one(path: Path) -> Iterator[bool]:
    """Yields whether the book could be locked, until the end of the block."""
    # A new descriptor each time: two threads with one descriptor would both hold it.
    descriptor = open_folder(path)
    try:
        try:
            lock(descriptor)
            free = _is_still(path, descriptor)
        except BlockingIOError:
            free = False
        yield free
    finally:
        # Unlocked explicitly, not by closing: a child forked meanwhile has it too.
        with suppress(OSError):
            unlock(descriptor)
        os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the directory was not replaced meanwhile."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError:
        return False


def _stuck(path: Path, seconds: float) -> Conflict:
    descriptor = open_folder(path)
    try:
        who, pids = named_holders(descriptor)
    finally:
        os.close(descriptor)
    hint = f"if it is stopped, resume it: kill -CONT {pids[0]}" if pids else "try again"
    return Conflict(
        f"the lease book {path} has been locked for {human_seconds(seconds)} by {who}", hint
    )


def named_holders(descriptor: int) -> tuple[str, list[int]]:
    """Returns who holds an exclusive lock on a directory or file: as text, and the visible pids."""
    pids = [pid for pid in holders_of(os.fstat(descriptor)) or [] if pid > 1]
    who = ", ".join(described(Locker(pid, uid_of(pid))) for pid in pids[:MOST_NAMED])
    return who or "a process that cannot be seen from here", pids
