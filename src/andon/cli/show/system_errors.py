"""Describes what the system refused: limits, full disks, paths of the wrong kind."""

import errno
import os
import signal
import sys

from andon.errors import AndonError, Denied, Invalid, Unavailable

PATHS = "check the paths in the settings, and in the variables ANDON_*, XDG_* and HOME"
_HINTS = {
    errno.EMFILE: "raise the limit of open files: ulimit -n",
    errno.ENFILE: "this machine has too many open files",
    errno.EAGAIN: "raise the limit of processes: ulimit -u",
    errno.ENOMEM: "free some memory, or raise its limit: ulimit -v",
    errno.EFBIG: "raise the limit of a file's size: ulimit -f",
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EACCES: "check its owner and mode",
    errno.EPERM: "check its owner and mode",
    errno.EROFS: "the file system is read-only",
    errno.EIO: "the disk may be failing: the kernel's log may say why",
}
_ONLY_UNIX = frozenset(("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"))
_NO_THREAD = "can't start new thread"
_ENCODING = "check the encoding of the terminal, and of the names of files"
_NO_TEXT = "surrogates not allowed"
"""Of the bytes of an argument that are no text, where it is sent to a server or written."""


def system_error(exc: BaseException) -> AndonError | None:
    """Returns the error for a system failure; None for our own bugs, whose traceback is needed."""
    if isinstance(exc, OSError):
        return _refused(exc)
    if isinstance(exc, MemoryError):
        return Unavailable("not enough memory", hint=_HINTS[errno.ENOMEM])
    if isinstance(exc, RuntimeError) and _NO_THREAD in str(exc):
        return Unavailable("no more threads may be started", hint=_HINTS[errno.EAGAIN])
    if isinstance(exc, UnicodeEncodeError) and exc.reason == _NO_TEXT:
        return Invalid("an argument is not UTF-8 text", hint=_ENCODING)
    if sys.platform == "win32" and isinstance(exc, ImportError | AttributeError) and _is_unix(exc):
        return Unavailable(f"this needs what only Linux and macOS have ({exc.name})")
    if isinstance(exc, ImportError) and _has_no_descriptor():
        return Unavailable("too many open files", hint=_HINTS[errno.EMFILE])
    return None


def _is_unix(exc: ImportError | AttributeError) -> bool:
    """Whether a module, or a function of Python's own, is missing because this is Windows."""
    if isinstance(exc, ImportError):
        return exc.name in _ONLY_UNIX
    return exc.obj is os or exc.obj is signal


def _refused(exc: OSError) -> AndonError:
    code, named = exc.errno or 0, exc.filename
    if code == errno.ENAMETOOLONG:
        return Invalid(f"{str(named)[:40]!r}… is too long for a path", hint=PATHS)
    reason = exc.strerror or str(exc) or type(exc).__name__
    kind = Denied if code in (errno.EACCES, errno.EPERM, errno.EROFS) else Unavailable
    return kind(f"{named}: {reason}" if named else reason, hint=_HINTS.get(code, PATHS))


def _has_no_descriptor() -> bool:
    """Whether file descriptors have run out: imports then fail as if the module were missing."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as exc:
        return exc.errno in (errno.EMFILE, errno.ENFILE)
    return False
