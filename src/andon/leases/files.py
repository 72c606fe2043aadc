"""The files of the book: made under another name, locked, then renamed; read without trust."""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from andon.errors import Conflict, Denied, Unavailable

LARGEST_BYTES = 64 * 1024
MOST_FILES = 8192
_MAKE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Found:
    """One file, as it was found."""

    name: str
    uid: int
    locked: bool
    modified: float
    size: int
    text: str | None  # None where it cannot be read: not ours to open, too large, not text


def unknown(name: str, size: int) -> bool:
    """Nothing is known yet."""
    return False


def make(folder: int, name: str, text: str, modified: float | None = None) -> int:
    """Make a locked file in a folder; its descriptor is the lock.

    Nobody can see it before it is locked, and the name it then gets has never been used: a lock
    on a file that is replaced would be held twice.
    """
    draft = f".{os.urandom(12).hex()}"
    descriptor = os.open(draft, _MAKE, 0o600, dir_fd=folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.fchmod(descriptor, 0o644)  # whatever the umask: others must see who holds it
        _write(descriptor, text)
        if modified is not None:
            stamp(descriptor, modified)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        os.close(descriptor)
        raise
    return descriptor


def stamp(descriptor: int, at: float) -> None:
    """The file's own time: one call, so that no reader ever sees half of it."""
    nanoseconds = int(at * 1e9)
    os.utime(descriptor, ns=(nanoseconds, nanoseconds))


def look(folder: int, known: Callable[[str, int], bool] = unknown) -> Iterator[Found]:
    """Every regular file whose name shows; links, pipes and the rest are none of ours.

    What is `known` by its name and size is not read again: names are never used twice, and files
    only grow.
    """
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= MOST_FILES:
                raise Conflict(
                    f"the lease book holds more than {MOST_FILES} files",
                    hint="its owner or root can remove what is not locked: andon setup",
                )
            if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False):
                found = _look_at(folder, entry.name, known)
                if found is not None:
                    yield found


def drafts(folder: int, uid: int) -> list[str]:
    """Unfinished files that a killed process left, as far as they are this user's to remove."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(".")]
    return [name for name in names if _is_left_over(folder, name, uid)]


def remove(folder: int, name: str) -> bool:
    """Whether it is gone; in a sticky folder only its owner can."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def open_folder(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except PermissionError as exc:
        raise Denied(f"the lease book {path} may not be read") from exc
    except OSError as exc:
        raise Unavailable(f"the lease book {path}: {exc.strerror}") from exc


def _look_at(folder: int, name: str, known: Callable[[str, int], bool]) -> Found | None:
    try:
        descriptor = os.open(name, _LOOK, dir_fd=folder)
    except FileNotFoundError:
        return None
    except PermissionError:
        return _closed(folder, name)
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.ENXIO):  # it became a link or a socket meanwhile
            return None
        raise
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return None
        text = None
        if facts.st_size <= LARGEST_BYTES and not known(name, facts.st_size):
            text = _text(descriptor)
        locked = _is_locked(descriptor)
        return Found(name, facts.st_uid, locked, facts.st_mtime, facts.st_size, text)
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    """Asked with a shared lock: an exclusive one would look like a holder to others who ask."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def _closed(folder: int, name: str) -> Found | None:
    """A file that we may not open: the kernel's own list says whether it is locked."""
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    locked = holders_of(facts)
    held = locked is None or bool(locked)
    return Found(name, facts.st_uid, held, facts.st_mtime, facts.st_size, None)


def holders_of(facts: os.stat_result) -> list[int] | None:
    """The pids that hold a flock on a file; None where the kernel does not tell."""
    try:
        lines = Path("/proc/locks").read_text("ascii").splitlines()
    except (OSError, ValueError):
        return None
    wanted = (os.major(facts.st_dev), os.minor(facts.st_dev), facts.st_ino)
    return [pid for line in lines if (pid := _holder(line, wanted)) is not None]


def _holder(line: str, wanted: tuple[int, int, int]) -> int | None:
    """`7: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`; one that waits begins with `7: ->`."""
    parts = line.split()
    if len(parts) < 6 or parts[1] != "FLOCK":
        return None
    try:
        major, minor, inode = parts[5].split(":")
        place = (int(major, 16), int(minor, 16), int(inode))
        return int(parts[4]) if place == wanted else None
    except ValueError:
        return None


def _is_left_over(folder: int, name: str, uid: int) -> bool:
    try:
        descriptor = os.open(name, _LOOK, dir_fd=folder)
    except OSError:
        return False
    try:
        facts = os.fstat(descriptor)
        ours = uid in (0, facts.st_uid)
        return stat.S_ISREG(facts.st_mode) and ours and not _is_locked(descriptor)
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
