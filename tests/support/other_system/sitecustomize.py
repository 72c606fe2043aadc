"""Makes this Python look like that of macOS or Windows (PRETENDED_SYSTEM=darwin|win32) to andon.

What the other system lacks is taken away: modules, functions of `os`, signals, clocks, /proc and
/sys. Python's own library, and psutil, are loaded before, and keep what they took. Paths stay those
of POSIX: a Windows path, its locks and its processes are not shown by this.
"""

import os
import sys
import types
from pathlib import Path

NO_MODULES = {
    "darwin": ("spwd",),
    "win32": ("fcntl", "grp", "pwd", "pty", "resource", "syslog", "termios", "tty"),
}
NO_NAMES_OF_OS = {
    "darwin": (
        "O_DIRECT O_PATH O_TMPFILE eventfd getrandom memfd_create pidfd_open "
        "sched_getaffinity sched_setaffinity setresgid setresuid getresgid getresuid unshare"
    ),
    "win32": (
        "O_CLOEXEC O_DIRECT O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_PATH O_TMPFILE SCHED_BATCH "
        "WNOHANG chown chroot ctermid eventfd fchmod fchown fork forkpty fpathconf fstatvfs "
        "getegid geteuid getgid getgrouplist getgroups getloadavg getpgid getpgrp getpriority "
        "getrandom getresgid getresuid getsid getuid initgroups killpg lchown lockf major "
        "memfd_create minor mkfifo mknod nice openpty pidfd_open pipe2 posix_fadvise "
        "posix_fallocate posix_spawn posix_spawnp pread preadv pwrite pwritev readv "
        "register_at_fork sched_getaffinity sched_setaffinity sched_yield sendfile setegid "
        "seteuid setgid setgroups setpgid "
        "setpriority setregid setresgid setresuid setreuid setsid setuid statvfs sync sysconf "
        "tcgetpgrp tcsetpgrp ttyname umask_ uname wait wait3 wait4 waitid writev"
    ),
}
NO_SIGNALS = "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP " + (
    "SIGTSTP SIGUSR1 SIGUSR2 SIGWINCH"
)
NO_SIGNAL_NAMES = (
    f"{NO_SIGNALS} pthread_sigmask pthread_kill setitimer sigwait sigtimedwait alarm pause"
)
NO_CLOCKS = {
    "darwin": "CLOCK_BOOTTIME",
    "win32": "CLOCK_BOOTTIME CLOCK_MONOTONIC CLOCK_REALTIME clock_gettime clock_getres tzset",
}
LINUX_ONLY = ("/proc", "/sys", "/dev/kmsg")


def pretend(system: str) -> None:
    """Changes this process; before andon is imported."""
    import asyncio  # noqa: F401 - each keeps what it takes from os now
    import concurrent.futures.process  # noqa: F401
    import ctypes  # noqa: F401
    import getpass  # noqa: F401
    import http.server  # noqa: F401
    import logging.handlers  # noqa: F401
    import multiprocessing.synchronize  # noqa: F401
    import platform  # noqa: F401
    import select
    import selectors  # noqa: F401
    import shutil  # noqa: F401
    import signal
    import socket
    import socketserver  # noqa: F401
    import ssl  # noqa: F401
    import subprocess  # noqa: F401
    import tarfile  # noqa: F401
    import tempfile  # noqa: F401
    import time
    import uuid  # noqa: F401
    import zipfile  # noqa: F401

    import click._compat  # noqa: F401
    import msgspec  # noqa: F401
    import psutil

    if system == "win32":
        _wait_as_windows_does(select)
    for name in NO_MODULES[system]:
        sys.modules[name] = None  # type: ignore[assignment]
    _keep_what_is_loaded((os, select, signal, socket, time))
    for holder, names in (
        (os, NO_NAMES_OF_OS[system]),
        (time, NO_CLOCKS[system]),
        (select, "poll epoll POLLIN POLLHUP" if system == "win32" else "epoll"),
        (signal, NO_SIGNAL_NAMES if system == "win32" else ""),
        (socket, "AF_UNIX SO_PEERCRED" if system == "win32" else "SO_PEERCRED"),
    ):
        for name in names.split():
            if hasattr(holder, name):
                delattr(holder, name)
    os.supports_dir_fd = set() if system == "win32" else os.supports_dir_fd
    sys.platform = system
    inside = str(Path(psutil.__file__).parent)
    sys.addaudithook(lambda event, args: _no_linux(event, args, inside))


def _keep_what_is_loaded(reduced: tuple[types.ModuleType, ...]) -> None:
    """Modules that look names up when they run get modules that still have all of them."""
    here = sys.modules[__name__]
    loaded = [one for one in sys.modules.values() if one is not here]
    for module in reduced:
        whole = types.ModuleType(module.__name__)
        whole.__dict__.update(module.__dict__)
        for holder in loaded:
            for name in (module.__name__, f"_{module.__name__}"):
                if getattr(holder, name, None) is module:
                    setattr(holder, name, whole)


def _wait_as_windows_does(select: types.ModuleType) -> None:
    """Windows asks pipe by pipe whether it holds something."""
    poll, readable, ended = select.poll, select.POLLIN, select.POLLHUP

    def peek(handle: int, size: int) -> tuple[int, int]:
        there = poll()
        there.register(handle, readable)
        found = there.poll(0)
        if found and found[0][1] == ended:
            raise BrokenPipeError
        return (1 if found else 0), size

    winapi, msvcrt = types.ModuleType("_winapi"), types.ModuleType("msvcrt")
    winapi.PeekNamedPipe, msvcrt.get_osfhandle = peek, int  # type: ignore[attr-defined]
    sys.modules.update(_winapi=winapi, msvcrt=msvcrt)


def _no_linux(event: str, args: tuple[object, ...], inside: str) -> None:
    if event not in ("open", "os.listdir", "os.scandir") or not args:
        return
    path = args[0]
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, str) or not path.startswith(LINUX_ONLY):
        return
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith(inside):
            return
        frame = frame.f_back  # type: ignore[assignment]
    raise FileNotFoundError(2, "this is not Linux", path)


if os.environ.get("PRETENDED_SYSTEM"):
    pretend(os.environ["PRETENDED_SYSTEM"])
