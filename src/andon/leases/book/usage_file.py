"""`usage.json` in the lease book: written by root's or the book owner's server, by no one else."""

import fcntl
import os
import stat
import time
from pathlib import Path

from andon.errors import Invalid
from andon.host.files import open_regular, read_regular, replace_file
from andon.host.users import is_root
from andon.leases.rules.usage import NO_USAGE, RecentUsage, usage_from_json, usage_to_json
from andon.model.wire import dumps, loads

NAME, LOCK = "usage.json", "usage.lock"
LARGEST_BYTES = 1 << 20
PUBLIC_FILE = 0o644


def read_usage(book: Path) -> RecentUsage:
    """What counts now; nothing where the file is missing, damaged or not its rightful owner's."""
    try:
        if not _is_rightful(book):
            return NO_USAGE
        found = usage_from_json(loads(read_regular(book / NAME, LARGEST_BYTES).decode()))
    except (OSError, ValueError, Invalid):
        return NO_USAGE
    return found.decayed(time.time())


def may_write(book: Path) -> bool:
    try:
        return is_root(os.getuid()) or os.getuid() == book.stat().st_uid
    except OSError:
        return False


def claim_writing(book: Path) -> int | None:
    """A descriptor whose lock makes this process the only one that counts; None for the others."""
    if not may_write(book):
        return None
    descriptor = open_regular(book / LOCK, os.O_RDWR | os.O_CREAT, PUBLIC_FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def write_usage(book: Path, usage: RecentUsage) -> None:
    text = dumps(usage_to_json(usage)) + "\n"
    replace_file(book / NAME, text.encode(), PUBLIC_FILE)


def _is_rightful(book: Path) -> bool:
    found, owner = (book / NAME).lstat(), book.stat()
    mine = found.st_uid in (0, owner.st_uid)
    return mine and stat.S_ISREG(found.st_mode) and not found.st_mode & 0o022
