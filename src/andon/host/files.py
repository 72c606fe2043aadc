"""Reads, opens and creates files and folders: of the kernel, small ones, and private ones."""

import errno
import math
import os
import select
import stat
import time
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from andon.errors import Unavailable

# Reads small files of the kernel, which may disappear at any moment.

# Windows has none of these flags, and no named pipes among its files.
NO_FOLLOW, NO_WAIT, FOLDER = (
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY")
)
PAGE_BYTES = 4096
_PIECE_BYTES = 65536


def read_file(path: str, limit_bytes: int, short_bytes: int = 0) -> bytes:
    """Returns the first bytes of a file; raises OSError or ValueError if it cannot be read."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return read_descriptor(descriptor, limit_bytes, short_bytes)
    finally:
        os.close(descriptor)


def read(path: str, limit_bytes: int) -> bytes | None:
    """Returns the first bytes of a file; None if it cannot be read or no longer exists.

    A file that fits into a page (`stat`, `status`) is read in one call. A longer one is read to
    the end: `/proc/mounts` returns as many whole lines as fit into a page, which is less than a
    page.
    """
    try:
        return read_file(path, limit_bytes, limit_bytes if limit_bytes <= PAGE_BYTES else 0)
    except (OSError, ValueError):
        return None


def read_descriptor(descriptor: int, limit_bytes: int, short_bytes: int = 0) -> bytes:
    """Reads to the end; a first read of less than `short_bytes` is the end."""
    content = piece = os.read(descriptor, min(limit_bytes, _PIECE_BYTES))
    while piece and len(content) >= short_bytes and len(content) < limit_bytes:
        piece = os.read(descriptor, min(limit_bytes - len(content), _PIECE_BYTES))
        content += piece
    return content


def parse_uid(content: bytes) -> int | None:
    """The real uid in /proc/<pid>/status; the folder's owner is root for a protected process."""
    for line in content.splitlines():
        if line.startswith(b"Uid:\t"):
            return int(line.split()[1])
    return None


# Opens files whose path another process may have replaced: regular files only, never blocks.

PRIVATE_FILE = 0o600
LARGEST_BYTES = 1024 * 1024

_CAUTION = NO_WAIT | getattr(os, "O_NOCTTY", 0)


class NotRegular(OSError):
    """The path is a pipe, a socket, a device or a folder; `strerror` is readable."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(errno.EINVAL, "not a regular file", str(path))


def open_regular(
    path: str | Path,
    flags: int = os.O_RDONLY,
    mode: int = PRIVATE_FILE,
    *,
    follow: bool = False,
    own: bool = False,
) -> int:
    """Returns a descriptor of a regular file; raises OSError (such as NotRegular) otherwise.

    Opening a pipe waits for its other end, and opening a device may act on it: O_NONBLOCK prevents
    the wait, and a file of another kind is closed unread. A symbolic link is an error (ELOOP)
    unless `follow` is given; with `own` so is a file of another user than this one and root, who
    may write to a shared folder too.
    """
    try:
        descriptor = os.open(path, flags | _CAUTION | (0 if follow else NO_FOLLOW), mode)
    except OSError as exc:
        if exc.errno in (errno.ENXIO, errno.EISDIR):  # a pipe without a reader, a socket; a folder
            raise NotRegular(path) from exc
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotRegular(path)
        if own and hasattr(os, "getuid") and found.st_uid not in (0, os.getuid()):
            raise PermissionError(errno.EPERM, "it belongs to another user", str(path))
        if hasattr(os, "set_blocking") and os.name != "nt":
            os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(
    path: str | Path,
    largest_bytes: int = LARGEST_BYTES,
    *,
    follow: bool = False,
    own: bool = False,
) -> bytes:
    """The content of a regular file; OSError (EFBIG) if it is larger than `largest_bytes`."""
    with os.fdopen(open_regular(path, follow=follow, own=own), "rb") as file:
        content = file.read(largest_bytes + 1)
    if len(content) > largest_bytes:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content


def replace_file(path: Path, content: bytes, mode: int = PRIVATE_FILE) -> None:
    """Writes a whole file: a reader sees the old content or all of the new, also after a power
    failure. The mode does not depend on the umask."""
    draft = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(open_regular(draft, flags, mode), "wb") as file:
            draft.chmod(mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def is_regular(path: str | Path) -> bool:
    """Whether a path is a regular file; False for an impossible path."""
    try:
        return stat.S_ISREG(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return False


# Creates folders and files, with any umask: a user's are private, the system's readable.

PRIVATE_FOLDER, SYSTEM_FOLDER = 0o700, 0o755


def make_private(folder: Path, mode: int = PRIVATE_FOLDER) -> None:
    """Creates a folder and its missing parents; raises OSError on failure.

    A parent that anyone may write to would let anyone replace the folder.
    """
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_private(folder.parent, mode)
    try:
        folder.mkdir(mode=mode)
    except FileExistsError:
        if not folder.is_dir():
            raise
    else:  # a umask may also remove the owner's own permissions
        folder.chmod(mode)


def make_private_file(path: Path) -> None:
    """Creates an empty file; an existing one is left unchanged."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        os.close(os.open(path, flags, PRIVATE_FILE))
    except FileExistsError:
        return


def others_may_write(folder: Path) -> bool:
    return bool(folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def home_folder() -> Path:
    """Returns this user's home; `/`, as container engines have it, for a user without one."""
    found = expanded("~")
    return found if found.is_absolute() else Path("/")


def expanded(path: str) -> Path:
    """Expands `~` and `~user`; an unknown user is left as written."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises RuntimeError


# Reads small files and lists folders, with limits: what cannot be read is empty.

SMALL_BYTES = 64 * 1024
BIG_BYTES = 1024 * 1024
MAX_NAMES = 4096


def read_text(path: Path, limit_bytes: int = SMALL_BYTES) -> str:
    """Returns the text of a small regular file, or nothing; never blocks on a pipe or a device."""
    return os.fsdecode(read_bytes(path, limit_bytes))


def read_bytes(path: Path, limit_bytes: int = SMALL_BYTES) -> bytes:
    try:
        descriptor = open_regular(path, follow=True)
    except (OSError, ValueError):
        return b""
    try:
        return read_descriptor(descriptor, limit_bytes)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def read_tail(path: Path, limit_bytes: int) -> str:
    """Returns the end of a text; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - limit_bytes))
            return file.read(limit_bytes).decode(errors="replace")
    except OSError:
        return ""


def names_in(folder: Path, limit: int = MAX_NAMES) -> list[str]:
    """Returns the entries of a folder, sorted; empty if it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry, _ in zip(entries, range(limit), strict=False))
    except OSError:
        return []


# Birth time of a file as the kernel records it: the one file time that no user can set.

_EMPTY_PATH, _BIRTH = 0x1000, 0x800  # AT_EMPTY_PATH, STATX_BTIME
_BYTES = 256
_BIRTH_OFFSET = 80


def born(descriptor: int) -> float | None:
    """Returns the birth time of an open file; None if the file system or the C library has none."""
    call = _statx()
    if call is None:
        return None
    buffer = bytearray(_BYTES)
    view = (_ctypes().c_char * _BYTES).from_buffer(buffer)
    if call(descriptor, b"", _EMPTY_PATH, _BIRTH, view) != 0:
        return None
    from struct import unpack_from

    if not unpack_from("=I", buffer)[0] & _BIRTH:
        return None
    seconds, nanoseconds = unpack_from("=qI", buffer, _BIRTH_OFFSET)
    return float(seconds + nanoseconds / 1e9)


def _ctypes() -> Any:
    import ctypes  # imported late: most commands never need it

    return ctypes


@lru_cache(maxsize=1)
def _statx() -> Any:
    return getattr(_ctypes().CDLL(None), "statx", None)


# Locks, which the kernel drops with the last process that holds them.


def lock(descriptor: int, *, shared: bool = False, wait: bool = False) -> None:
    """Locks a file; BlockingIOError if another process holds it, Unavailable on Windows, which has
    no such locks."""
    fcntl = _fcntl()
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(descriptor, kind | (0 if wait else fcntl.LOCK_NB))


def unlock(descriptor: int) -> None:
    fcntl = _fcntl()
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def is_locked(descriptor: int) -> bool:
    """Whether a file is locked; tested with a shared lock, which looks like no holder's."""
    try:
        lock(descriptor, shared=True)
    except BlockingIOError:
        return True
    unlock(descriptor)
    return False


def require_locks() -> None:
    """Unavailable on Windows, where nothing can be leased or queued."""
    _fcntl()


def _fcntl() -> Any:
    try:
        import fcntl  # not every system has it
    except ModuleNotFoundError:
        raise Unavailable("kernel locks are needed for this, and Windows has none") from None
    return fcntl


def free_bytes(folder: Path) -> int | None:
    """Returns how many bytes this user may still write there; None if not known."""
    from shutil import disk_usage

    try:
        return disk_usage(folder).free
    except OSError:
        return None


# Waits for pipes.

POLL_SECONDS = 0.002


def wait_readable(pipes: Collection[int], seconds: float) -> list[int]:
    """Returns the pipes that have something to read or have ended, after this time at most."""
    if not hasattr(select, "poll"):
        return _poll(pipes, time.monotonic() + seconds)
    waiting = select.poll()
    for pipe in pipes:
        waiting.register(pipe, select.POLLIN)
    return [pipe for pipe, _ in waiting.poll(math.ceil(seconds * 1000))]


def _poll(pipes: Collection[int], end: float) -> list[int]:
    """Polls the pipes on Windows, which cannot wait for several at once."""
    while not (ready := [pipe for pipe in pipes if _has_bytes(pipe)]) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    return ready


def _has_bytes(pipe: int) -> bool:
    import _winapi
    import msvcrt

    try:
        return bool(_winapi.PeekNamedPipe(msvcrt.get_osfhandle(pipe), 0)[0])  # type: ignore[attr-defined]
    except OSError:  # its other end is closed, which `read` reports
        return True
