"""Reads small files of the kernel, which may disappear at any moment."""

import os

OPEN = os.O_RDONLY | os.O_CLOEXEC
PAGE_BYTES = 4096
_PIECE_BYTES = 65536


def read_file(path: str, limit_bytes: int) -> bytes:
    """The first bytes of a file; raises OSError or ValueError if it cannot be read."""
    descriptor = os.open(path, OPEN)
    try:
        return read_descriptor(descriptor, limit_bytes)
    finally:
        os.close(descriptor)


def read(path: str, limit_bytes: int) -> bytes | None:
    """The same; None if it cannot be read or no longer exists."""
    try:
        return read_file(path, limit_bytes)
    except (OSError, ValueError):
        return None


def read_descriptor(descriptor: int, limit_bytes: int, short_bytes: int = PAGE_BYTES) -> bytes:
    """Read on to the end, unless the first read returns less than `short_bytes`."""
    content = piece = os.read(descriptor, min(limit_bytes, _PIECE_BYTES))
    while piece and len(content) >= short_bytes and len(content) < limit_bytes:
        # /proc returns one page at a time
        piece = os.read(descriptor, min(limit_bytes - len(content), _PIECE_BYTES))
        content += piece
    return content


def parse_uid(content: bytes) -> int | None:
    """The real uid in /proc/<pid>/status; the folder's owner is root for a protected process."""
    for line in content.splitlines():
        if line.startswith(b"Uid:\t"):
            return int(line.split()[1])
    return None
