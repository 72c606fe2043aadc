"""Where the lease book is, and which directories cannot be one."""

import errno
import os
import stat
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from andon.errors import AndonError, Denied, Invalid, Unavailable
from andon.host import file_systems
from andon.host.state.user_folder import POLICY_FILE
from andon.host.users import is_unknown, user_name
from andon.units import sh

SYSTEM_BOOK = Path("/run/andon")
COMMON_BOOK = Path("/tmp/andon")  # noqa: S108 - every user must find the same one
VARIABLE = "ANDON_LEASE_DIR"
LEASES, TICKETS, CORDONS = "leases", "tickets", "cordons"
MODES = {LEASES: 0o1777, TICKETS: 0o1777, CORDONS: 0o755}
RESERVATIONS, RESERVATION = "reservations", ".reservation"
LASTING = {SYSTEM_BOOK: Path("/var/lib/andon-book"), COMMON_BOOK: Path("/var/tmp/andon")}  # noqa: S108
"""Where the reservations of books are that a reboot empties."""
COARSE_SECONDS = 0.1  # the kernel's time of a change is that of its last tick
_POLICY = str(POLICY_FILE)
FolderStamp = tuple[int, int, int]
"""Inode and time of change of a folder, which no one can set, and root's policy's."""
USAGE_FILES = frozenset({"usage.json", "usage.lock"})  # a server writes these into a book


def book_path(env: Mapping[str, str]) -> Path:
    """Returns the book for new leases."""
    named = env.get(VARIABLE)
    if named:
        return Path(named)
    return SYSTEM_BOOK if is_set_up() else COMMON_BOOK


def books(env: Mapping[str, str]) -> tuple[Path, ...]:
    """Returns every book that counts: a grant reads them all, in this order.

    If root has set one up, a book that another user created is ignored. Otherwise the first
    user's book is the machine's. Windows has no locks of files that end with their process, and so
    no book.
    """
    if sys.platform == "win32":
        return ()
    own = book_path(env)
    others = [p for p in (SYSTEM_BOOK, COMMON_BOOK) if p != own and _decides(p)]
    return tuple(sorted((own, *others)))


def reservations_folders(book: Path) -> tuple[Path, ...]:
    """Returns where the reservations of a book's devices may be. A stranger may have made
    /var/tmp/andon and closed it: then they are in the book."""
    lasting = (LASTING.get(book, book), *(book,) * (book == COMMON_BOOK))
    return tuple(path / RESERVATIONS for path in lasting)


def is_closed(folder: Path) -> bool:
    """Whether a folder of reservations in /var/tmp does not count: its owner has closed it, so that
    not everyone would know what is in it."""
    if folder.parent != LASTING.get(COMMON_BOOK):
        return False
    try:
        above = folder.parent.lstat().st_mode
        if not stat.S_ISDIR(above) or above & 0o005 != 0o005:
            return True
        return folder.lstat().st_mode != stat.S_IFDIR | MODES[LEASES]
    except FileNotFoundError:
        return False
    except OSError:
        return True


def is_set_up() -> bool:
    """Whether root has created the machine's book."""
    return _owner(SYSTEM_BOOK) is not None and _is_trusted(SYSTEM_BOOK)


def _decides(path: Path) -> bool:
    """Whether a book counts; in a user namespace also one whose owner is unknown, because an
    existing book is never treated as empty."""
    owner = _owner(path)
    if owner is None:
        return False
    return _is_trusted(path) or is_unknown(owner) or (path == COMMON_BOOK and not is_set_up())


def _is_trusted(path: Path) -> bool:
    """Whether root or this user created it, or its parent is writable only by them: in a user
    namespace root's directories belong to `nobody`, and only root can write to `/run`."""
    if _owner(path) in (0, os.getuid()):
        return True
    try:
        above = path.parent.lstat()
    except OSError:
        return False
    safe = above.st_uid in (0, os.getuid()) or is_unknown(above.st_uid)
    return safe and not above.st_mode & 0o022


def _owner(path: Path) -> int | None:
    """Returns the uid of a directory's owner; None for anything else, including links."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_uid if stat.S_ISDIR(found.st_mode) else None


def is_folder(path: Path) -> bool:
    """Whether it is a directory; a link is none: in /tmp kernels do not follow another user's."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def is_unused(path: Path) -> bool:
    """Whether it is an empty directory of root or this user: a future book, without a lease."""
    try:
        names = set(os.listdir(path))  # noqa: PTH208 - names alone
        return _owner(path) in (0, os.getuid()) and names <= {*USAGE_FILES, RESERVATIONS}
    except OSError:
        return False


def may_hold_leases(env: Mapping[str, str]) -> bool:
    """Whether any book has a file: checked before more is imported."""
    mounts = file_systems.read_mounts()
    for path in books(env):
        with suppress(OSError):
            if file_systems.network_system(path, mounts) is None and os.listdir(path / LEASES):  # noqa: PTH208
                return True
    return False


def is_empty(env: Mapping[str, str]) -> bool:
    """Whether every book is either valid and empty, or missing.

    Then no module that reads one is imported. In doubt it returns False: the reader reports what
    is wrong.
    """
    mounts, found = file_systems.read_mounts(), books(env)
    try:
        if found:
            refuse_bad_place(book_path(env), mounts)
        return all(_holds_nothing(path, mounts) and not is_reserved(path) for path in found)
    except (AndonError, OSError):
        return False


def has_changed(env: Mapping[str, str], since: float) -> bool:
    """Whether a lease, a ticket or a cordon was added or removed in any book after this time."""
    mounts = file_systems.read_mounts()
    for path in books(env):
        if file_systems.network_system(path, mounts) is not None:
            return True
        for part in (*(path / name for name in MODES), *reservations_folders(path)):
            with suppress(OSError):
                if part.stat().st_mtime >= since:
                    return True
    return False


def _holds_nothing(path: Path, mounts: str) -> bool:
    if file_systems.network_system(path, mounts) is not None:
        return False
    try:
        found = path.lstat()
    except FileNotFoundError:
        return True
    if found.st_uid not in (0, os.getuid()) or found.st_mode & 0o022:
        return False
    return is_unused(path) or not any(os.listdir(path / part) for part in MODES)  # noqa: PTH208


def is_reserved(book: Path) -> bool:
    """Whether anything is reserved beside a book."""
    return any(map(has_reservations, reservations_folders(book)))


def has_reservations(folder: Path) -> bool:
    """Whether a folder has reservations; in doubt True: the reader reports what is wrong."""
    try:
        if not any(name.endswith(RESERVATION) for name in os.listdir(folder)):  # noqa: PTH208
            return False
    except FileNotFoundError:
        return False
    except OSError:
        pass
    return not is_closed(folder)


def changed_at(folder: Path) -> float:
    """Returns when a folder was last changed; 0 where there is none."""
    try:
        return os.lstat(folder).st_ctime
    except OSError:
        return 0.0


def reservations_stamp(folder: Path) -> FolderStamp | None:
    """Returns what differs once anything is reserved, changed, used or cancelled in a folder.
    None if that is not known: a change just now has the same time as the next one."""
    try:
        found = os.lstat(folder)
        if abs(time.time() - found.st_ctime) <= COARSE_SECONDS:
            return None
    except OSError:
        return None
    try:
        return found.st_ino, found.st_ctime_ns, os.stat(_POLICY).st_ctime_ns  # noqa: PTH116
    except OSError:
        return found.st_ino, found.st_ctime_ns, 0


def prepare(path: Path, mounts: str | None = None) -> None:
    """Creates the book if it is missing, and refuses a directory that cannot be one."""
    refuse_bad_place(path, mounts)
    if path != SYSTEM_BOOK and os.path.lexists(SYSTEM_BOOK) and not is_set_up():
        raise Unavailable(
            f"{SYSTEM_BOOK} exists, but other users than root could have made it",
            hint=f"check {SYSTEM_BOOK} and the mode of {SYSTEM_BOOK.parent}: sudo andon setup",
        )
    try:
        found = path.lstat()
    except FileNotFoundError:
        _make(path)
        found = path.lstat()
    except OSError as exc:
        raise Unavailable(f"the lease book {path}: {exc.strerror}") from exc
    if not stat.S_ISDIR(found.st_mode):
        raise Denied(
            f"the lease book {path} is not a directory; {user_name(found.st_uid)} created it",
            hint=f"remove it, or choose another: {VARIABLE}",
        )
    _refuse_other_use(path, found)
    if found.st_mode & 0o022:
        raise Denied(
            f"users other than its owner ({user_name(found.st_uid)}) can write to the book {path}",
            hint=f"{user_name(found.st_uid)} or root can fix that: chmod 755 {sh(path)}",
        )
    _complete(path, found.st_uid)
    if found.st_uid == os.getuid():
        with suppress(AndonError):  # whoever reserves is told
            prepare_reservations(path)


def _refuse_other_use(path: Path, found: os.stat_result) -> None:
    """Refuses a directory used for something else: it is not a book, and gets no parts of one."""
    try:
        names = set(os.listdir(path))  # noqa: PTH208 - names alone
    except OSError as exc:
        raise Denied(
            f"no permission to read the lease book {path} of {user_name(found.st_uid)}",
            hint=f"sudo andon setup creates {SYSTEM_BOOK}",
        ) from exc
    others = names - USAGE_FILES
    if found.st_mode & stat.S_ISVTX or (others and not others & MODES.keys()):
        raise Invalid(
            f"{path} is used for something else and is not a lease book",
            hint=f"use a directory of its own: {VARIABLE}={sh(path / 'andon')}",
        )


def refuse_bad_place(path: Path, mounts: str | None = None) -> None:
    """Refuses a bad path without touching it: on a network file system the call may hang."""
    mounts = file_systems.read_mounts() if mounts is None else mounts
    if not path.is_absolute():
        raise Invalid(f"{VARIABLE} is {str(path)!r}, not an absolute path")
    if path == Path("/"):
        raise Invalid(
            f"{VARIABLE} is {str(path)!r}, not a directory of its own",
            hint=f"e.g. {VARIABLE}={SYSTEM_BOOK}",
        )
    home = Path(os.environ.get("HOME") or "/")
    if home not in (Path("/"), Path("/tmp")) and home in path.parents:  # noqa: S108
        raise Invalid(
            f"the lease book {path} is under a home directory, where other users cannot see it",
            hint=f"use one outside: {VARIABLE}={SYSTEM_BOOK}, which sudo andon setup creates",
        )
    refuse_network(path, mounts)


def refuse_network(path: Path, mounts: str) -> None:
    """Refuses a network file system: a book there cannot be trusted. Checked before anything
    touches it, which might hang."""
    if (kind := file_systems.network_system(path, mounts)) is not None:
        raise Invalid(
            f"the lease book {path} is on a network file system ({kind}), whose locks do not hold",
            hint=f"use a local directory: {VARIABLE}=/run/andon",
        )


def _make(path: Path) -> None:
    """Creates a book atomically: a draft directory gets its parts and modes, then the name."""
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        draft.mkdir(0o700)
        try:
            for name in MODES:
                (draft / name).mkdir()
                (draft / name).chmod(MODES[name])
            draft.chmod(0o755)
            draft.rename(path)
        except OSError:
            _remove(draft)
            raise
    except OSError as exc:
        if is_folder(path):  # another process was first
            return
        raise Unavailable(
            f"the lease book {path} cannot be created: {exc.strerror}",
            hint=f"sudo andon setup creates {SYSTEM_BOOK}",
        ) from exc


def prepare_reservations(book: Path) -> Path:
    """Returns the folder for a new reservation, made if it is missing: every user may write to it,
    and no one may remove another's file from it. That of root's book is root's."""
    *lasting, last = reservations_folders(book)
    for place in lasting:
        if not is_closed(place) or _owner(place.parent) == os.getuid():
            with suppress(Unavailable):
                return _made_folder(book, place)
    return _made_folder(book, last)


def _made_folder(book: Path, place: Path) -> Path:
    if place.exists():
        return place
    if book == SYSTEM_BOOK and os.getuid() != 0:
        raise Unavailable(f"there is no {place}", hint="sudo andon setup makes it")
    draft = place.with_name(f".{RESERVATIONS}.{os.urandom(8).hex()}")
    try:
        with suppress(FileExistsError):
            place.parent.mkdir()
        if place.parent.stat().st_uid == os.getuid():  # also one whose maker was killed here
            place.parent.chmod(0o755)  # regardless of the umask: every user reads it
        draft.mkdir(0o700)
        draft.chmod(MODES[LEASES])
        draft.rename(place)
    except OSError as exc:
        with suppress(OSError):
            draft.rmdir()
        if not is_folder(place):  # no other process was first
            raise Unavailable(
                f"{place} cannot be made: {exc.strerror}", hint="sudo andon setup makes one"
            ) from exc
    return place


def _remove(draft: Path) -> None:
    with suppress(OSError):
        for name in MODES:
            with suppress(OSError):
                (draft / name).rmdir()
        draft.rmdir()


def _complete(path: Path, owner: int) -> None:
    """Repairs a book with a missing part if this user owns it; anyone else gets an error."""
    for name, mode in MODES.items():
        part = path / name
        try:
            found = part.lstat()
        except FileNotFoundError:
            _repair(part, mode, owner)
            continue
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (owner, 0):
            raise Denied(
                f"{part} does not belong to the book's owner ({user_name(owner)})",
                hint=f"{user_name(owner)} or root can remove it",
            )
        if stat.S_IMODE(found.st_mode) != mode:
            _repair(part, mode, owner)


def _repair(part: Path, mode: int, owner: int) -> None:
    """Repairs a part, only in our own book: in another user's, its owner can put a link there."""
    try:
        if owner != os.getuid():
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        part.mkdir(exist_ok=True)
        part.chmod(mode)
    except OSError as exc:
        raise Unavailable(
            f"the lease book's {part} is missing or has the wrong mode ({exc.strerror}); "
            f"its owner is {user_name(owner)}",
            hint=f"sudo andon setup creates {SYSTEM_BOOK}, which is then used instead",
        ) from exc
