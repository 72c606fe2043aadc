"""Opens files whose path another process may have replaced: regular files only, never blocks."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

PRIVATE_FILE = 0o600
LARGEST_BYTES = 1024 * 1024

# Windows has none of these flags, and no named pipes among its files.
_CAUTION = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


class NotRegular(OSError):
    """The path is a pipe, a socket, a device or a folder; `strerror` is readable."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(errno.EINVAL, "not a regular file", str(path))


def open_regular(
    path: str | Path, flags: int = os.O_RDONLY, mode: int = PRIVATE_FILE, *, follow: bool = False
) -> int:
    """Returns a descriptor of a regular file; raises OSError (such as NotRegular) otherwise.

    Opening a pipe waits for its other end, and opening a device may act on it: O_NONBLOCK prevents
    the wait, and a file of another kind is closed unread. A symbolic link is an error (ELOOP)
    unless `follow` is given.
    """
    try:
        descriptor = os.open(path, flags | _CAUTION | (0 if follow else _NO_FOLLOW), mode)
    except OSError as exc:
        if exc.errno in (errno.ENXIO, errno.EISDIR):  # a pipe without a reader, a socket; a folder
            raise NotRegular(path) from exc
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegular(path)
        if hasattr(os, "set_blocking") and os.name != "nt":
            os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(
    path: str | Path, largest_bytes: int = LARGEST_BYTES, *, follow: bool = False
) -> bytes:
    """The content of a regular file; OSError (EFBIG) if it is larger than `largest_bytes`."""
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
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
