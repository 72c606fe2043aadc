"""Reads small files and lists folders, with limits: what cannot be read is empty."""

import os
from pathlib import Path

from andon.host.files.kernel import read_descriptor
from andon.host.files.private import open_regular

SMALL_BYTES = 64 * 1024
BIG_BYTES = 1024 * 1024
MAX_NAMES = 4096


def read_text(path: Path, limit_bytes: int = SMALL_BYTES) -> str:
    """The text of a small regular file, or nothing; never blocks on a pipe or a device."""
    return os.fsdecode(read_bytes(path, limit_bytes))


def read_bytes(path: Path, limit_bytes: int = SMALL_BYTES) -> bytes:
    try:
        descriptor = open_regular(path, follow=True)
    except (OSError, ValueError):
        return b""
    try:
        return read_descriptor(descriptor, limit_bytes)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def names_in(folder: Path, limit: int = MAX_NAMES) -> list[str]:
    """The entries of a folder, sorted; empty if it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry, _ in zip(entries, range(limit), strict=False))
    except OSError:
        return []
