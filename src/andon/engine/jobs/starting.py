"""Starts the dispatcher of a folder of jobs where none runs."""

import fcntl
import os
import subprocess
import threading
from contextlib import suppress

from andon.engine.jobs.folder import LOCK, LOG, JobsFolder
from andon.host.interpreter import module_command, module_environment

MODULE = "andon.app.dispatching"
LARGEST_LOG_BYTES = 1_000_000
_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def lock_dispatcher(folder: JobsFolder) -> int | None:
    """The lock of the only dispatcher, for as long as the descriptor is open; None where another
    process has it."""
    descriptor = os.open(folder.path / LOCK, _OPEN, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_dispatched(folder: JobsFolder) -> bool:
    """Whether a dispatcher runs. A shared lock never keeps one from starting: it tries again."""
    try:
        descriptor = os.open(folder.path / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def start_dispatcher(folder: JobsFolder) -> bool:
    """Start one in a session of its own, unless one runs; whether one was started."""
    if is_dispatched(folder):
        return False
    try:
        log = open_log(folder)
        try:
            started = subprocess.Popen(
                module_command(MODULE, str(folder.path)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=module_environment(),
                start_new_session=True,
            )
        finally:
            os.close(log)
    except OSError:
        return False  # the next command about jobs tries again
    # A process that goes on must not keep a zombie; one that ends leaves it to init.
    threading.Thread(target=started.wait, name="andon dispatcher", daemon=True).start()
    return True


def open_log(folder: JobsFolder) -> int:
    """What dispatchers say; begun again when it has become large."""
    path = folder.path / LOG
    with suppress(OSError):
        if path.stat().st_size > LARGEST_LOG_BYTES:
            path.rename(path.with_suffix(".log.1"))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
