"""Reads small files of the kernel, which may disappear at any moment."""

import os

OPEN = os.O_RDONLY | os.O_CLOEXEC


def parse_uid(content: bytes) -> int | None:
    """The real uid in /proc/<pid>/status; the folder's owner is root for a protected process."""
    for line in content.splitlines():
        if line.startswith(b"Uid:\t"):
            return int(line.split()[1])
    return None


def read(path: str, limit_bytes: int) -> bytes | None:
    """The first bytes of a kernel file; None if it cannot be read or no longer exists."""
    try:
        descriptor = os.open(path, OPEN)
    except (OSError, ValueError):
        return None
    try:
        content = piece = os.read(descriptor, limit_bytes)
        while piece and len(content) >= 4096 and len(content) < limit_bytes:
            piece = os.read(
                descriptor, limit_bytes - len(content)
            )  # /proc returns one page at a time
            content += piece
    except OSError:  # it ended after it was opened
        return None
    finally:
        os.close(descriptor)
    return content
