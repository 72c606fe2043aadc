"""Files of the kernel's, read as they are: short, and gone at any moment."""

import os

OPEN = os.O_RDONLY | os.O_CLOEXEC


def parse_uid(content: bytes) -> int | None:
    """The real user of /proc/<pid>/status; the folder's owner is root for a guarded process."""
    for line in content.splitlines():
        if line.startswith(b"Uid:\t"):
            return int(line.split()[1])
    return None


def read(path: str, limit_bytes: int) -> bytes | None:
    """The beginning of a file of the kernel's; None where it may not be read, or is gone."""
    try:
        descriptor = os.open(path, OPEN)
    except (OSError, ValueError):
        return None
    try:
        content = piece = os.read(descriptor, limit_bytes)
        while piece and len(content) >= 4096 and len(content) < limit_bytes:
            piece = os.read(descriptor, limit_bytes - len(content))  # /proc answers page by page
            content += piece
    except OSError:  # it ended after it was opened
        return None
    finally:
        os.close(descriptor)
    return content
