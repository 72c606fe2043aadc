"""The kernel's list of file locks, /proc/locks."""

import os
from contextlib import suppress
from pathlib import Path

FileKey = tuple[int, int, int]
"""Major and minor device number, and inode."""


def key_of(facts: os.stat_result) -> FileKey:
    return os.major(facts.st_dev), os.minor(facts.st_dev), facts.st_ino


def read_locks() -> str | None:
    """Returns the kernel's list of locks; None if it does not show one."""
    try:
        # As bytes: a codec that is not loaded yet may not be readable for whoever gave up root.
        return Path("/proc/locks").read_bytes().decode("ascii", "replace")
    except OSError:
        return None


def parse_locks(text: str) -> dict[FileKey, list[int]]:
    """Parses `7: FLOCK ADVISORY WRITE 4711 fe:00:1234 0 EOF`; a waiting one begins with `7: ->`."""
    found: dict[FileKey, list[int]] = {}
    for line in text.splitlines():
        parts = line.split()
        if len(parts) >= 6 and parts[1] == "FLOCK" and parts[3] == "WRITE":
            with suppress(ValueError):
                major, minor, inode = parts[5].split(":")
                pid, key = int(parts[4]), (int(major, 16), int(minor, 16), int(inode))
                found.setdefault(key, []).append(pid)
    return found


def holders_of(facts: os.stat_result) -> list[int] | None:
    """The pids that hold an exclusive flock on a file; None if the kernel does not show it."""
    text = read_locks()
    return None if text is None else parse_locks(text).get(key_of(facts), [])
