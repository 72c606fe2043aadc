"""One grant at a time: a lock on the book's own folder, waited for only so long."""

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from andon.errors import Conflict
from andon.host.kin import user_name
from andon.kernel_files import parse_uid, read
from andon.leases.files import holders_of, open_folder

PATIENCE_SECONDS = 5.0
MOST_NAMED = 3
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.0005, 0.03


@contextmanager
def mutex(books: Sequence[Path], patience_seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Hold every book at once, always in the same order."""
    with ExitStack() as held:
        for path in books:
            held.enter_context(_one(path, patience_seconds))
        yield


@contextmanager
def _one(path: Path, patience_seconds: float) -> Iterator[None]:
    end = time.monotonic() + patience_seconds
    while True:
        # A descriptor of its own each time: two threads with one descriptor would both hold it.
        descriptor = open_folder(path)
        try:
            _wait(descriptor, path, end, patience_seconds)
            if _is_still(path, descriptor):
                yield
                return
        finally:
            # Unlocked by name and not by closing: a child that was forked meanwhile has it too.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _wait(descriptor: int, path: Path, end: float, patience_seconds: float) -> None:
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                raise _stuck(path, descriptor, patience_seconds) from None
        time.sleep(pause * (0.5 + os.urandom(1)[0] / 255))  # to not knock in step
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the folder was not replaced while we waited for it."""
    try:
        here, there = path.stat(), os.fstat(descriptor)
    except OSError:
        return False
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _stuck(path: Path, descriptor: int, seconds: float) -> Conflict:
    who, pids = named_holders(descriptor)
    hint = f"if it is stopped, let it go on: kill -CONT {pids[0]}" if pids else "try again"
    return Conflict(f"the lease book {path} has been locked for {seconds:.0f} s by {who}", hint)


def named_holders(descriptor: int) -> tuple[str, list[int]]:
    """Who has locked a folder or file for itself: in words, and the pids that can be seen."""
    pids = [pid for pid in holders_of(os.fstat(descriptor)) or [] if pid > 1]
    who = ", ".join(_named(pid) for pid in pids[:MOST_NAMED])
    return who or "a process that cannot be seen from here", pids


def _named(pid: int) -> str:
    uid = parse_uid(read(f"/proc/{pid}/status", 4096) or b"")
    owner = "" if uid is None else f" ({user_name(uid)})"
    return f"pid {pid}{owner}"
