"""Who is at the other end of a local socket, according to the kernel."""

import socket
import struct
import sys
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")
OVERFLOW = Path("/proc/sys/kernel/overflowuid")


def is_known() -> bool:
    """Whether this system supports it, and has sockets without a file."""
    return sys.platform == "linux" and hasattr(socket, "SO_PEERCRED")


def connect(name: str, timeout_seconds: float) -> socket.socket:
    """A connection to a socket without a file, whose calls end after this time.

    The kernel waits while many others connect, and serves them in order; Python's own timeout
    would make it refuse at once.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        limit = struct.pack("ll", int(timeout_seconds), int(timeout_seconds % 1 * 1e6))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        connection.connect(f"\0{name}")
        connection.settimeout(timeout_seconds)
    except BaseException:
        connection.close()
        raise
    return connection


def peer_uid(connection: socket.socket) -> int | None:
    """The uid; None for one that this user namespace does not know: many share that number."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(found)[1]
    return None if uid < 0 or uid == _overflow_uid() else uid


def _overflow_uid() -> int:
    try:
        return int(OVERFLOW.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 65534
