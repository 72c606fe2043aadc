"""Reads small files and lists folders, with limits: what cannot be read is empty."""

import os
import stat
from pathlib import Path

SMALL_BYTES = 64 * 1024
BIG_BYTES = 1024 * 1024
MAX_NAMES = 4096


def read_text(path: Path, limit_bytes: int = SMALL_BYTES) -> str:
    """The text of a small regular file, or nothing; never blocks on a pipe or a device."""
    return os.fsdecode(read_bytes(path, limit_bytes))


def read_bytes(path: Path, limit_bytes: int = SMALL_BYTES) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return b""
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return _whole(descriptor, limit_bytes) if regular else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _whole(descriptor: int, limit_bytes: int) -> bytes:
    content = piece = os.read(descriptor, limit_bytes)
    while piece and len(content) < limit_bytes:  # /proc returns one page at a time
        piece = os.read(descriptor, limit_bytes - len(content))
        content += piece
    return content


def names_in(folder: Path, limit: int = MAX_NAMES) -> list[str]:
    """The entries of a folder, sorted; empty if it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry, _ in zip(entries, range(limit), strict=False))
    except OSError:
        return []
