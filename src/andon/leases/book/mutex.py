"""One grant at a time: a lock on the book's directory, with a timeout."""

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from andon.errors import Conflict
from andon.host.processes.kin import uid_of
from andon.leases.book.files import open_folder
from andon.leases.book.lock_holders import described
from andon.leases.book.locks import holders_of
from andon.leases.rules.lockers import Locker
from andon.units import human_seconds

TIMEOUT_SECONDS = 5.0
MOST_NAMED = 3
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.0005, 0.03


@contextmanager
def mutex(books: Sequence[Path], timeout_seconds: float = TIMEOUT_SECONDS) -> Iterator[None]:
    """Hold every book at once, always in the same order."""
    with ExitStack() as held:
        for path in books:
            held.enter_context(_one(path, timeout_seconds))
        yield


@contextmanager
def _one(path: Path, timeout_seconds: float) -> Iterator[None]:
    end = time.monotonic() + timeout_seconds
    while True:
        # A new descriptor each time: two threads with one descriptor would both hold it.
        descriptor = open_folder(path)
        try:
            _wait(descriptor, path, end, timeout_seconds)
            if _is_still(path, descriptor):
                yield
                return
        finally:
            # Unlocked explicitly, not by closing: a child forked meanwhile has it too.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _wait(descriptor: int, path: Path, end: float, timeout_seconds: float) -> None:
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                raise _stuck(path, descriptor, timeout_seconds) from None
        time.sleep(pause * (0.5 + os.urandom(1)[0] / 255))  # jitter, so that waiters do not collide
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the directory was not replaced while we waited."""
    try:
        here, there = path.stat(), os.fstat(descriptor)
    except OSError:
        return False
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _stuck(path: Path, descriptor: int, seconds: float) -> Conflict:
    who, pids = named_holders(descriptor)
    hint = f"if it is stopped, resume it: kill -CONT {pids[0]}" if pids else "try again"
    return Conflict(
        f"the lease book {path} has been locked for {human_seconds(seconds)} by {who}", hint
    )


def named_holders(descriptor: int) -> tuple[str, list[int]]:
    """Who holds an exclusive lock on a directory or file: as text, and the visible pids."""
    pids = [pid for pid in holders_of(os.fstat(descriptor)) or [] if pid > 1]
    who = ", ".join(described(Locker(pid, uid_of(pid))) for pid in pids[:MOST_NAMED])
    return who or "a process that cannot be seen from here", pids
