"""The files of the book: created under another name, locked, then renamed; read without trust."""

import errno
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from andon.errors import AndonError, Conflict, Denied, Unavailable
from andon.host.files import FOLDER, NO_FOLLOW, NO_WAIT, born, is_locked, lock
from andon.host.users import user_name
from andon.leases.book.locks import holders_of
from andon.model.lease_wire import MOST_OF_ONE_USER as MOST_OF_ONE_USER

LARGEST_BYTES = 64 * 1024
MOST_FILES = 65_536  # beyond this the directory cannot be read in time
LONGEST_NAME = 160
_PLAIN = r"[A-Za-z0-9_@+.-]+"
_OUT_OF_MEANS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
MAKE = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | NO_FOLLOW
"""Lines are only ever added, by the holder and by other commands of its user."""
_FOLDER = os.O_RDONLY | FOLDER | NO_FOLLOW
_READ = os.O_RDONLY | NO_FOLLOW | NO_WAIT


class BookFile(Struct, frozen=True):
    """One file, as it was read."""

    name: str
    uid: int
    locked: bool
    modified: float  # its owner can set this
    changed: float  # no one can set this: the last rename, write or change of `modified`
    size: int
    inode: int
    text: str | None  # None where it cannot be read: no permission, too large, not text
    born: float | None = None  # for another user's file that was read, where the kernel knows it


Known = Callable[[str, os.stat_result], bool]


def unknown(name: str, facts: os.stat_result) -> bool:
    """Returns False: no file was read before."""
    return False


def is_named(name: str, suffix: str) -> bool:
    """Whether a file name could be andon's: short, with plain characters."""
    return name.endswith(suffix) and len(name) <= LONGEST_NAME and bool(re.fullmatch(_PLAIN, name))


def make(
    folder: int,
    name: str,
    text: str,
    modified: float | None = None,
    uid: int | None = None,
    *,
    lasting: bool = False,
) -> int:
    """Creates a locked file in a directory; its descriptor is the lock. Root may give it to a
    user.

    No one can see it before it is locked, and its final name has never been used: a lock on a
    file that is replaced would be held twice. One that is `lasting`, and whose lock means nothing,
    may replace another of this user: it is on the disk before that.
    """
    draft = f".{os.urandom(12).hex()}"
    descriptor = os.open(draft, MAKE, 0o600, dir_fd=folder)
    try:
        lock(descriptor)
        os.fchmod(descriptor, 0o644)  # regardless of the umask: others must see who holds it
        _write(descriptor, text)
        if modified is not None:
            stamp(descriptor, modified)
        if uid is not None:
            os.fchown(descriptor, uid, -1)
        if lasting:
            os.fsync(descriptor)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        os.close(descriptor)
        raise
    return descriptor


def stamp(descriptor: int, at: float) -> None:
    """Sets the file's time in one call, so that no reader sees a partial change."""
    nanoseconds = int(at * 1e9)
    os.utime(descriptor, ns=(nanoseconds, nanoseconds))


def scan(
    folder: int, suffix: str, known: Known = unknown, beyond: dict[int, int] | None = None
) -> Iterator[BookFile]:
    """Yields every regular file with a valid name; links, pipes and the rest are ignored.

    Files that are `known` are not read again. `beyond` counts the ignored files of users with
    too many.
    """
    for name in _listed(folder, suffix, {} if beyond is None else beyond):
        found = read_file(folder, name, known)
        if found is not None:
            yield found


def count_of(folder: int, suffix: str, uid: int) -> int:
    """Returns how many files one user has; exact only if the directory has that many at all."""
    with os.scandir(folder) as entries:
        named = [entry for entry in entries if is_named(entry.name, suffix)]
    if len(named) < MOST_OF_ONE_USER:
        return len(named)
    return sum(owner_of(entry) == uid for entry in named)


def _listed(folder: int, suffix: str, beyond: dict[int, int]) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            named = [e for e in entries if not e.name.startswith(".") and is_named(e.name, suffix)]
        named = [entry for entry in named if entry.is_file(follow_symlinks=False)]
    except OSError as exc:
        raise _failed(exc) from exc
    if len(named) <= MOST_OF_ONE_USER:
        return [entry.name for entry in named]
    if len(named) > MOST_FILES:
        raise _crowded(named)
    return _fair(named, beyond)


def _fair(named: Sequence["os.DirEntry[str]"], beyond: dict[int, int]) -> list[str]:
    """Returns the names of at most so many files of each user, so that one user's cannot displace
    others'; counts the rest in `beyond`."""
    counted: Counter[int] = Counter()
    out = []
    for entry in named:
        uid = owner_of(entry)
        if uid is None:
            continue
        counted[uid] += 1
        if counted[uid] <= MOST_OF_ONE_USER:
            out.append(entry.name)
        else:
            beyond[uid] = beyond.get(uid, 0) + 1
    return out


def _crowded(named: Sequence["os.DirEntry[str]"]) -> Conflict:
    owners = Counter(uid for entry in named if (uid := owner_of(entry)) is not None)
    who = ", ".join(f"{user_name(uid)}: {count}" for uid, count in owners.most_common(3))
    return Conflict(
        f"the lease book holds {len(named)} files ({who})",
        hint="root can remove unlocked ones: sudo andon setup",
    )


def owner_of(entry: os.DirEntry[str]) -> int | None:
    """Returns the uid of a file's owner; None if the file no longer exists."""
    try:
        return entry.stat(follow_symlinks=False).st_uid
    except OSError:
        return None


def remove_drafts(folder: int, uid: int) -> None:
    """Removes unfinished files that a killed process left, as far as this user may."""
    with os.scandir(folder) as entries:
        hidden = [entry for entry in entries if entry.name.startswith(".")]
    for entry in hidden:
        if (uid == 0 or owner_of(entry) == uid) and _is_left_over(folder, entry.name, uid):
            remove(folder, entry.name)


def remove(folder: int, name: str) -> bool:
    """Removes a file; returns whether it is gone. In a sticky directory only its owner may."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def open_folder(path: Path, part: str = "") -> int:
    """Opens a book or a part of it; never through a link, which its owner could redirect."""
    try:
        book = os.open(path, _FOLDER)
        if not part:
            return book
        try:
            return os.open(part, _FOLDER, dir_fd=book)
        finally:
            os.close(book)
    except PermissionError as exc:
        raise Denied(f"no permission to read the lease book {path / part}") from exc
    except FileNotFoundError as exc:
        raise Unavailable(
            f"the lease book {path} has no folder {part}" if part else f"there is no {path}",
            hint="the next andon run of its owner creates it",
        ) from exc
    except OSError as exc:
        raise Unavailable(f"the lease book {path / part}: {exc.strerror}") from exc


def read_file(folder: int, name: str, known: Known = unknown) -> BookFile | None:
    """Reads one file; None if it no longer exists or is not a regular file."""
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.ENXIO):  # it has become a link or a socket
            return None
        if exc.errno in _OUT_OF_MEANS:
            raise _failed(exc) from exc
        return _closed(folder, name)
    try:
        facts = os.fstat(descriptor)
        return _open(descriptor, name, facts, known) if stat.S_ISREG(facts.st_mode) else None
    except OSError as exc:
        if exc.errno in _OUT_OF_MEANS:
            raise _failed(exc) from exc
        return _closed(folder, name)  # a bad block affects only this file
    finally:
        os.close(descriptor)


def _open(descriptor: int, name: str, facts: os.stat_result, known: Known) -> BookFile:
    text = made = None
    if facts.st_size <= LARGEST_BYTES and not known(name, facts):
        text = _text(descriptor)
        made = born(descriptor) if facts.st_uid != os.geteuid() else None
    return _found(name, facts, is_locked(descriptor), text, made)


def _found(
    name: str, facts: os.stat_result, locked: bool, text: str | None, made: float | None = None
) -> BookFile:
    return BookFile(
        name,
        facts.st_uid,
        locked,
        facts.st_mtime,
        facts.st_ctime,
        facts.st_size,
        facts.st_ino,
        text,
        made,
    )


def _failed(exc: OSError) -> AndonError:
    return Unavailable(f"the lease book cannot be read: {exc.strerror}")


def _closed(folder: int, name: str) -> BookFile | None:
    """Reads only the facts of a file that may not be opened; the kernel's list shows its lock."""
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except PermissionError as exc:
        raise Denied("no permission to read the files of the lease book") from exc
    except OSError as exc:
        raise _failed(exc) from exc
    if not stat.S_ISREG(facts.st_mode):
        return None
    locked = holders_of(facts)
    return _found(name, facts, locked is None or bool(locked), None)


def _is_left_over(folder: int, name: str, uid: int) -> bool:
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError:
        return False
    try:
        facts = os.fstat(descriptor)
        ours = uid in (0, facts.st_uid)
        return stat.S_ISREG(facts.st_mode) and ours and not is_locked(descriptor)
    finally:
        os.close(descriptor)


def _text(descriptor: int) -> str | None:
    content = b""
    while piece := os.read(descriptor, LARGEST_BYTES + 1 - len(content)):
        content += piece
        if len(content) > LARGEST_BYTES:
            return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _write(descriptor: int, text: str) -> None:
    content = memoryview(text.encode())
    while content:
        content = content[os.write(descriptor, content) :]
