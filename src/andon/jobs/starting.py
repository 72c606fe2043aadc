"""Starts the dispatcher of a folder of jobs where none runs.

Most submissions find one: what starts a process is imported only when it is needed.
"""

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from andon.host.files import NO_FOLLOW, lock, open_regular
from andon.host.state.user_folder import is_own
from andon.jobs.folder import LOCK, LOG, JobsFolder

if TYPE_CHECKING:
    import subprocess

LARGEST_LOG_BYTES = 1_000_000
_OPEN = os.O_RDWR | os.O_CREAT | NO_FOLLOW


def lock_dispatcher(folder: JobsFolder) -> int | None:
    """Takes the lock of the only dispatcher, held as long as the descriptor is open; None if
    another process has it."""
    descriptor = os.open(folder.path / LOCK, _OPEN, 0o600)
    try:
        lock(descriptor)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_dispatched(folder: JobsFolder) -> bool:
    """Whether a dispatcher runs, as far as can be seen without starting one."""
    try:
        descriptor = os.open(folder.path / LOCK, os.O_RDONLY | NO_FOLLOW)
    except OSError:
        return False
    try:
        lock(descriptor, shared=True)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def start_dispatcher(folder: JobsFolder) -> bool:
    """Starts a dispatcher in a session of its own, unless one runs; returns whether one was
    started.

    It inherits the lock that was taken here: of many processes that want to start one, only one
    does.
    """
    if not is_own(folder.path.parent):
        return False  # it would start another user's jobs as this user
    try:
        lock = lock_dispatcher(folder)
        if lock is None:
            return False
        try:
            started = _spawn(folder, lock)
        finally:
            os.close(lock)
    except OSError:
        return False  # the next command about jobs tries again

    # A process that goes on must not keep a zombie; one that ends leaves it to init.
    threading.Thread(target=started.wait, name="andon dispatcher", daemon=True).start()
    return True


def _spawn(folder: JobsFolder, lock: int) -> "subprocess.Popen[bytes]":
    import subprocess

    from andon.host.interpreter import module_environment, process_command
    from andon.jobs.log_out import scope_prefix

    log = open_log(folder)
    argv = process_command("dispatcher", str(folder.path), str(lock))
    try:
        return subprocess.Popen(
            [*scope_prefix(f"andon-dispatcher-{os.urandom(6).hex()}"), *argv],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=module_environment(),
            pass_fds=(lock,),
            start_new_session=True,
        )
    finally:
        os.close(log)


def open_log(folder: JobsFolder) -> int:
    """Opens the log of dispatchers; begun again when it has become large."""
    path = folder.path / LOG
    with suppress(OSError):
        if path.stat().st_size > LARGEST_LOG_BYTES:
            path.rename(path.with_suffix(".log.1"))
    return open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, follow=True)
