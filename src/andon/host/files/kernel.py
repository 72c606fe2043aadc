"""Reads small files of the kernel, which may disappear at any moment."""

import os

OPEN = os.O_RDONLY | os.O_CLOEXEC
PAGE_BYTES = 4096
_PIECE_BYTES = 65536


def read_file(path: str, limit_bytes: int, short_bytes: int = 0) -> bytes:
    """The first bytes of a file; raises OSError or ValueError if it cannot be read."""
    descriptor = os.open(path, OPEN)
    try:
        return read_descriptor(descriptor, limit_bytes, short_bytes)
    finally:
        os.close(descriptor)


def read(path: str, limit_bytes: int) -> bytes | None:
    """The same; None if it cannot be read or no longer exists.

    What fits into a page (`stat`, `status`) is read in one call. A longer one is read to the end:
    `/proc/mounts` returns as many whole lines as fit into a page, which is less than a page.
    """
    try:
        return read_file(path, limit_bytes, limit_bytes if limit_bytes <= PAGE_BYTES else 0)
    except (OSError, ValueError):
        return None


def read_descriptor(descriptor: int, limit_bytes: int, short_bytes: int = 0) -> bytes:
    """Read to the end; a first read of less than `short_bytes` is the end."""
    content = piece = os.read(descriptor, min(limit_bytes, _PIECE_BYTES))
    while piece and len(content) >= short_bytes and len(content) < limit_bytes:
        piece = os.read(descriptor, min(limit_bytes - len(content), _PIECE_BYTES))
        content += piece
    return content


def parse_uid(content: bytes) -> int | None:
    """The real uid in /proc/<pid>/status; the folder's owner is root for a protected process."""
    for line in content.splitlines():
        if line.startswith(b"Uid:\t"):
            return int(line.split()[1])
    return None
